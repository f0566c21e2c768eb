{{- define "toolcell.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "toolcell.selector" -}}
app.kubernetes.io/name: toolcell
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "toolcell.labels" -}}
{{ include "toolcell.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}
