{{/* For charts that have this one as a dependency, with `mode: sidecar`: deploy/helm/sidecar-example uses all of them. */}}

{{/* A native sidecar, an item of `initContainers`. */}}
{{- define "delaybridge.sidecar.container" -}}
{{ include "delaybridge.container" . }}
restartPolicy: Always
# Your containers start when this succeeds: the configuration is valid.
startupProbe:
  httpGet: { path: /livez, port: delaybridge }
  periodSeconds: 1
  failureThreshold: 60
# At the container and not at the pod, because the pod has other containers.
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/* Items of `volumes`. */}}
{{- define "delaybridge.sidecar.volumes" -}}
{{ include "delaybridge.volumes" . }}
{{- end }}

{{/* Labels of the pod, by which the PodMonitor finds it. */}}
{{- define "delaybridge.sidecar.labels" -}}
delaybridge: sidecar
delaybridge-release: {{ .Release.Name }}
{{- end }}

{{/* Annotations of the pod: a changed configuration rolls it. */}}
{{- define "delaybridge.sidecar.annotations" -}}
{{ include "delaybridge.annotations" . }}
{{- end }}
