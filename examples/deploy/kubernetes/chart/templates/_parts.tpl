{{- define "partita.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Takes the name of a component. */}}
{{- define "partita.selector" -}}
app.kubernetes.io/name: partita
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "partita.partOf" -}}
app.kubernetes.io/name: partita
app.kubernetes.io/part-of: partita
{{- end }}

{{- define "partita.labels" -}}
{{ include "partita.selector" . }}
app.kubernetes.io/part-of: partita
{{- end }}

{{/* Takes the id of a user. */}}
{{- define "partita.podSecurity" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "partita.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "partita.platformSettings" -}}
{{ .Values.platformSettings | default (.Files.Get "files/configuration.yaml") }}
{{- end }}

{{/* Pods start again when what they read at their start changes. */}}
{{- define "partita.checksums" -}}
checksum/settings: {{ include (print .Template.BasePath "/settings.yaml") . | sha256sum }}
{{- end }}

{{- define "partita.environment" -}}
envFrom:
  - configMapRef: {name: partita}
{{- end }}

{{- define "partita.namespaceVariable" -}}
- {name: PARTITA_CONFIG_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
{{- end }}

{{- define "partita.migrationMounts" -}}
- {name: data, mountPath: /data}
- {name: tmp, mountPath: /tmp}
- {name: secrets, mountPath: /run/secrets/partita, readOnly: true}
{{- end }}

{{- define "partita.mounts" -}}
{{ include "partita.migrationMounts" . }}
- {name: platform-settings, mountPath: /etc/partita, readOnly: true}
{{- end }}

{{- define "partita.volumes" -}}
- name: data
  emptyDir: {sizeLimit: 2Gi}
- name: tmp
  emptyDir: {sizeLimit: 1Gi}
- name: secrets
  secret: {secretName: {{ .Values.secretName }}, defaultMode: 0440}
- name: platform-settings
  configMap: {name: partita-platform-settings}
{{- end }}

{{/* The volume of a store's password; takes [root, key]. */}}
{{- define "partita.passwordVolume" -}}
- name: secrets
  secret:
    secretName: {{ (index . 0).Values.secretName }}
    defaultMode: 0440
    items:
      - {key: {{ index . 1 }}, path: {{ index . 1 }}}
{{- end }}

{{/* The claim of a store; takes its size. */}}
{{- define "partita.claim" -}}
volumeClaimTemplates:
  - metadata:
      name: data
      labels:
        {{- include "partita.partOf" . | nindent 8 }}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: {{ . }}}}
{{- end }}

{{/* The Service of a store; takes [name, port]. */}}
{{- define "partita.service" -}}
{{- $name := index . 0 -}}
apiVersion: v1
kind: Service
metadata:
  name: partita-{{ $name }}
  labels:
    {{- include "partita.labels" $name | nindent 4 }}
spec:
  selector:
    {{- include "partita.selector" $name | nindent 4 }}
  ports:
    - {name: {{ index . 2 }}, port: {{ index . 1 }}, targetPort: {{ index . 2 }}}
{{- end }}

{{- define "partita.disruptionBudget" -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: partita-{{ . }}
  labels:
    {{- include "partita.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "partita.selector" . | nindent 6 }}
{{- end }}
