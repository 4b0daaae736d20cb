{{/* Values that each are valid and that do not go together, or would stop the service. */}}
{{- define "tidegate.check" -}}
{{- $kind := .Values.store.kind -}}
{{- $replicas := int .Values.replicaCount -}}
{{- if lt $replicas 1 -}}
{{- fail (printf "replicaCount: %d leaves no daemon to answer; use at least 1, or `kubectl scale --replicas 0` for a pause" $replicas) -}}
{{- end -}}
{{- if ne $kind "redis" -}}
{{- if .Values.autoscaling.enabled -}}
{{- fail (printf "autoscaling.enabled: daemons with store.kind %s share nothing, so each would admit every limit once more; use store.kind: redis, or autoscaling.enabled: false" $kind) -}}
{{- end -}}
{{- if and (eq $kind "embedded") (gt $replicas 1) -}}
{{- fail (printf "replicaCount: %d with store.kind embedded: the files of a store have one daemon, and each daemon would admit every limit once more; use replicaCount: 1, or store.kind: redis" $replicas) -}}
{{- end -}}
{{- if gt $replicas 1 -}}
{{- fail (printf "replicaCount: %d with store.kind memory: daemons that share nothing admit every limit once each; use replicaCount: 1, or store.kind: redis" $replicas) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail (printf "autoscaling.minReplicas: %d is more than maxReplicas, %d" (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- end -}}
{{- $ports := dict -}}
{{- range include "tidegate.ports" . | fromJsonArray -}}
{{- $port := toString .port -}}
{{- if hasKey $ports $port -}}
{{- fail (printf "listeners.%s.port: %s is the port of listeners.%s too; give each a port of its own" .name $port (get $ports $port)) -}}
{{- end -}}
{{- $_ := set $ports $port .name -}}
{{- end -}}
{{- range $section := list "listen" "store" "authorization" -}}
{{- if hasKey $.Values.policy $section -}}
{{- fail (printf "policy.%s: the chart writes this section; use the values `%s`" $section (get (dict "listen" "listeners" "store" "store" "authorization" "authorization") $section)) -}}
{{- end -}}
{{- end -}}
{{- if dig "http" "bounds" "drain_timeout" "" .Values.policy -}}
{{- fail "policy.http.bounds.drain_timeout: the grace period depends on it; use termination.drainSeconds" -}}
{{- end -}}
{{- if and .Values.listeners.proxy.enabled (not .Values.policy.proxy) -}}
{{- fail "listeners.proxy.enabled: the reverse proxy has no upstreams; write `policy.proxy`, or use enabled: false" -}}
{{- end -}}
{{- if and .Values.tls.clientCertificates (not .Values.tls.existingSecret) -}}
{{- fail "tls.clientCertificates: the listeners speak plain text; name a Secret with tls.crt, tls.key and ca.crt as tls.existingSecret" -}}
{{- end -}}
{{- $names := list -}}
{{- range .Values.authorization.grants -}}
{{- if not .certificate -}}
{{- $names = append $names .name -}}
{{- if and (not $.Values.authorization.existingSecret) (not (get $.Values.authorization.tokens .name)) -}}
{{- fail (printf "authorization.tokens: the grant %s has no token; run `tidegate token` and add `%s: TOKEN`, or name a Secret with the key %s as authorization.existingSecret" .name .name .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := .Values.authorization.tokens -}}
{{- if $.Values.authorization.existingSecret -}}
{{- fail (printf "authorization.tokens.%s: the Secret %s has the tokens; use existingSecret: \"\", or leave tokens out" $name $.Values.authorization.existingSecret) -}}
{{- end -}}
{{- if not (has $name $names) -}}
{{- fail (printf "authorization.tokens.%s: no grant has this name; the grants with a token are %s" $name (join ", " $names)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not (has .Values.serviceMonitor.grant $names)) -}}
{{- fail (printf "serviceMonitor.grant: %s is no grant with a token; use one of %s" .Values.serviceMonitor.grant (join ", " $names)) -}}
{{- end -}}
{{- end -}}
