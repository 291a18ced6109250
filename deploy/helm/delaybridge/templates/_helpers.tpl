{{/* The name of all objects: that of the release, unless it is that of the chart. */}}
{{- define "delaybridge.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name }}{{ end }}
{{- end }}

{{/* The first part of the names of Services: the same, but no longer than 55 characters, so that 8 more make a valid one. */}}
{{- define "delaybridge.serviceName" -}}
{{- $release := .Release.Name | replace "." "-" }}
{{- $release = ternary (printf "r%s" $release) $release (regexMatch "^[0-9]" $release) }}
{{- if contains .Chart.Name $release }}{{ $release }}{{ else }}{{ printf "%s-%s" ($release | trunc 43 | trimSuffix "-") .Chart.Name }}{{ end }}
{{- end }}

{{/* The ConfigMap with the configuration. */}}
{{- define "delaybridge.configMap" -}}
{{ .Values.existingConfigMap | default (include "delaybridge.name" .) }}
{{- end }}

{{/* Whether the pods are in another chart. Values of a release before this chart have no mode. */}}
{{- define "delaybridge.isSidecar" -}}
{{- if eq (.Values.mode | default "deployment") "sidecar" }}yes{{ end }}
{{- end }}

{{/* What selects the pods; never changes. */}}
{{- define "delaybridge.selector" -}}
{{- if include "delaybridge.isSidecar" . -}}
{{ include "delaybridge.sidecar.labels" . }}
{{- else -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- end }}

{{/* Labels of all objects. */}}
{{- define "delaybridge.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
