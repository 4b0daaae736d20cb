{{- define "tidegate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The name of most objects. Room is left for `-members`. */}}
{{- define "tidegate.fullname" -}}
{{- $name := include "tidegate.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 54 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 54 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 54 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tidegate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "tidegate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tidegate.labels" -}}
{{ include "tidegate.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The Secret with the tokens. */}}
{{- define "tidegate.tokens" -}}
{{- .Values.authorization.existingSecret | default (printf "%s-tokens" (include "tidegate.fullname" .)) -}}
{{- end -}}

{{/* The listeners that are open, as JSON: name, port, and whether callers of any kind use it. */}}
{{- define "tidegate.ports" -}}
{{- $ports := list -}}
{{- range $name := list "http" "admin" "grpc" "resp" "proxy" -}}
{{- $listener := get $.Values.listeners $name -}}
{{- if dig "enabled" true $listener -}}
{{- $ports = append $ports (dict "name" $name "port" (int $listener.port)) -}}
{{- end -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}
