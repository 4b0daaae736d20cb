{{/* The policy of the daemons, as YAML: the sections of the chart and those of `policy`. */}}
{{- define "tidegate.policy" -}}
{{- $listen := dict -}}
{{- range include "tidegate.ports" . | fromJsonArray -}}
{{- $listener := dict "address" (printf "%s:%d" $.Values.listeners.address (int .port)) -}}
{{- if $.Values.tls.existingSecret -}}
{{- $tls := dict "cert" "/run/secrets/tls/tls.crt" "key" "/run/secrets/tls/tls.key" -}}
{{- if and $.Values.tls.clientCertificates (ne .name "admin") -}}
{{- $_ := set $tls "client_ca" "/run/secrets/tls/ca.crt" -}}
{{- end -}}
{{- $_ := set $listener "tls" $tls -}}
{{- end -}}
{{- if and (eq .name "proxy") (not (and $.Values.tls.existingSecret $.Values.tls.clientCertificates)) -}}
{{- $_ := set $listener "insecure" true -}}
{{- end -}}
{{- $_ := set $listen .name $listener -}}
{{- end -}}
{{- $store := dict "kind" .Values.store.kind -}}
{{- if eq .Values.store.kind "redis" -}}
{{- $redis := .Values.store.redis -}}
{{- $members := .Values.replicaCount -}}
{{- if .Values.autoscaling.enabled -}}
{{- $members = .Values.autoscaling.maxReplicas -}}
{{- end -}}
{{- $store = dict "kind" "redis" "urls" $redis.urls "members" (int $members) -}}
{{- if $redis.cluster -}}{{- $_ := set $store "cluster" true -}}{{- end -}}
{{- if $redis.username -}}{{- $_ := set $store "username" $redis.username -}}{{- end -}}
{{- if $redis.passwordSecret -}}
{{- $_ := set $store "password_file" (printf "/run/secrets/redis/%s" $redis.passwordKey) -}}
{{- end -}}
{{- else if eq .Values.store.kind "embedded" -}}
{{- $store = dict "kind" "embedded" "path" "/var/lib/tidegate/store" "disk" .Values.store.embedded.disk -}}
{{- end -}}
{{- $grants := list -}}
{{- range .Values.authorization.grants -}}
{{- $grant := deepCopy . -}}
{{- if not .certificate -}}
{{- $_ := set $grant "token_file" (printf "/run/secrets/tidegate/%s" .name) -}}
{{- end -}}
{{- $grants = append $grants $grant -}}
{{- end -}}
{{- $policy := .Values.policy -}}
{{- if not $policy -}}
{{- $policy = .Files.Get "files/example-policy.yaml" | fromYaml -}}
{{- end -}}
{{- $bounds := dict "drain_timeout" (printf "%ds" (int .Values.termination.drainSeconds)) -}}
{{- $own := dict "listen" $listen "store" $store "authorization" $grants "http" (dict "bounds" $bounds) -}}
{{- toYaml (mergeOverwrite (deepCopy $policy) $own) -}}
{{- end -}}

{{/* A number that changes with the settings that running daemons do not take over. */}}
{{- define "tidegate.restartSettings" -}}
{{- $policy := include "tidegate.policy" . | fromYaml -}}
{{- $settings := pick $policy "listen" "http" "log" "memory" "metering" -}}
{{- $_ := set $settings "store" (omit $policy.store "members") -}}
{{- toJson $settings | sha256sum -}}
{{- end -}}
