{{/* The template of the pods, of the Deployment and of the StatefulSet. */}}
{{- define "tidegate.pod" -}}
metadata:
  labels:
    {{- include "tidegate.selectorLabels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # The policy is followed. These settings are not, so a change of them starts new pods.
    checksum/restart-settings: {{ include "tidegate.restartSettings" . }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  # A Service called `tidegate` would set TIDEGATE_PORT and others.
  enableServiceLinks: false
  {{- with .Values.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  # The sleep, the drain, and 20 s to write what is open.
  terminationGracePeriodSeconds: {{ add .Values.termination.preStopSeconds .Values.termination.drainSeconds 20 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    # Volumes are made writable for this group.
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "tidegate.selectorLabels" . | nindent 10 }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: tidegate
      image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/tidegate/tidegate.yaml, --log-format, json]
      ports:
        {{- range include "tidegate.ports" . | fromJsonArray }}
        - name: {{ .name }}
          containerPort: {{ .port }}
          protocol: TCP
        {{- end }}
      {{- $scheme := ternary "HTTPS" "HTTP" (ne .Values.tls.existingSecret "") }}
      startupProbe:
        httpGet: { path: /healthz, port: admin, scheme: {{ $scheme }} }
        periodSeconds: 1
        failureThreshold: 60
      readinessProbe:
        httpGet: { path: /readyz, port: admin, scheme: {{ $scheme }} }
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 2
      livenessProbe:
        httpGet: { path: /healthz, port: admin, scheme: {{ $scheme }} }
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      lifecycle:
        preStop:
          sleep:
            seconds: {{ .Values.termination.preStopSeconds }}
      # A policy with problems ends the daemon; `kubectl describe pod` shows its message.
      terminationMessagePolicy: FallbackToLogsOnError
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      volumeMounts:
        # The folder. A file mounted by `subPath` would never change.
        - name: policy
          mountPath: /etc/tidegate
          readOnly: true
        - name: tokens
          mountPath: /run/secrets/tidegate
          readOnly: true
        {{- if .Values.tls.existingSecret }}
        - name: tls
          mountPath: /run/secrets/tls
          readOnly: true
        {{- end }}
        {{- if and (eq .Values.store.kind "redis") .Values.store.redis.passwordSecret }}
        - name: redis
          mountPath: /run/secrets/redis
          readOnly: true
        {{- end }}
        {{- if eq .Values.store.kind "embedded" }}
        - name: store
          mountPath: /var/lib/tidegate
        {{- end }}
  volumes:
    - name: policy
      configMap:
        name: {{ include "tidegate.fullname" . }}
    - name: tokens
      secret:
        secretName: {{ include "tidegate.tokens" . }}
        defaultMode: 0440
    {{- with .Values.tls.existingSecret }}
    - name: tls
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- if and (eq .Values.store.kind "redis") .Values.store.redis.passwordSecret }}
    - name: redis
      secret:
        secretName: {{ .Values.store.redis.passwordSecret }}
        defaultMode: 0440
    {{- end }}
{{- end -}}
