{{/* What the daemon's container has in a Deployment and as a sidecar. deploy/kubernetes has the reasons of the probes. */}}
{{- define "delaybridge.container" -}}
name: delaybridge
image: "{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default (.Chart.AppVersion | replace "+" "-") }}{{ end }}"
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
env:
  - name: DELAYBRIDGE_JOBS_SHUTDOWN_DELAY
    value: {{ .Values.shutdownDelay | default "5s" }}
  {{- with .Values.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: delaybridge
    containerPort: {{ .Values.port }}
  {{- if (.Values.admin).enabled }}
  - name: admin
    containerPort: {{ .Values.admin.port }}
  {{- end }}
{{- with .Values.lifecycle }}
lifecycle:
  {{- toYaml . | nindent 2 }}
{{- end }}
livenessProbe:
  httpGet: { path: /livez, port: delaybridge }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
resources:
  {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - name: delaybridge
    mountPath: /etc/delaybridge
    readOnly: true
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The volumes of the pod. */}}
{{- define "delaybridge.volumes" -}}
- name: delaybridge
  projected:
    {{- if not (include "delaybridge.isSidecar" .) }}
    # 0440: the daemon's group may read it, others may not.
    defaultMode: 288
    {{- end }}
    sources:
      - configMap: { name: {{ include "delaybridge.configMap" . }} }
      {{- with .Values.secret }}
      - secret: { name: {{ . }} }
      {{- end }}
      {{- range .Values.extraSecrets }}
      - secret: { name: {{ . }} }
      {{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A changed configuration rolls the pods. An invalid one never becomes ready, and the old pods continue. */}}
{{- define "delaybridge.annotations" -}}
{{- if .Values.config -}}
checksum/config: {{ .Values.config | sha256sum }}
{{- end }}
{{- end }}
