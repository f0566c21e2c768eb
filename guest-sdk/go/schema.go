package toolcell

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"
)

// schemas makes the JSON Schema of what encoding/json reads or writes of a type.
type schemas struct {
	// writes: of an answer, where a nil pointer is null.
	writes bool
	// around has the named types around the current one, because one that contains itself has no schema here.
	around []reflect.Type
}

func inputSchema(t reflect.Type) map[string]any { return schemas{}.of(t) }

func outputSchema(t reflect.Type) map[string]any { return schemas{writes: true}.of(t) }

func implements[I any](t reflect.Type) bool {
	wanted := reflect.TypeFor[I]()
	return t.Implements(wanted) || reflect.PointerTo(t).Implements(wanted)
}

// ownSchema returns the schema of a type that encoding/json does not write by its kind, or nil.
func ownSchema(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time", "pattern": dateTime}
	case t == reflect.TypeFor[json.Number]():
		return map[string]any{"type": "number"}
	case t.Kind() == reflect.Interface || t.Kind() == reflect.Pointer:
		return nil
	case implements[json.Marshaler](t) || implements[json.Unmarshaler](t):
		return map[string]any{}
	case implements[encoding.TextMarshaler](t) || implements[encoding.TextUnmarshaler](t):
		return map[string]any{"type": "string"}
	case isBytes(t):
		return map[string]any{"type": "string", "contentEncoding": "base64"}
	}
	return nil
}

// dateTime is what time.Time reads, as far as a pattern can say it: with a T, seconds, and a zone.
const dateTime = `^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?` +
	`(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`

// isBytes says whether encoding/json writes a type in base64.
func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

func (s schemas) of(t reflect.Type) map[string]any {
	if own := ownSchema(t); own != nil {
		return own
	}
	if t.Name() != "" {
		if slices.Contains(s.around, t) {
			panic("toolcell: no JSON Schema for " + t.String() + ", which contains itself: use any in its place")
		}
		s.around = append(slices.Clone(s.around), t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return bounded(t, true)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return bounded(t, false)
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Interface:
		return map[string]any{}
	case reflect.Struct:
		properties, required := map[string]any{}, []string{}
		s.fields(t, true, properties, &required)
		return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	}
	panic("toolcell: no JSON Schema for " + t.String())
}

// bounded returns the schema of an integer. Those of 64 bits have no bounds beyond 2^53, which some readers of JSON take for
// other numbers.
func bounded(t reflect.Type, signed bool) map[string]any {
	made := map[string]any{"type": "integer"}
	if !signed {
		made["minimum"] = 0
		if t.Bits() < 64 {
			made["maximum"] = int64(1)<<t.Bits() - 1
		}
	} else if t.Bits() < 64 {
		made["minimum"], made["maximum"] = -int64(1)<<(t.Bits()-1), int64(1)<<(t.Bits()-1)-1
	}
	return made
}

// fields adds those of a struct; always: whether it is there whenever the struct around it is.
func (s schemas) fields(t reflect.Type, always bool, properties map[string]any, required *[]string) {
	var embedded []reflect.StructField
	for i := range t.NumField() {
		field := t.Field(i)
		name, options := tag(field)
		if name == "" && isEmbedded(field) {
			embedded = append(embedded, field)
			continue
		}
		if !field.IsExported() || name == "-" && len(options) == 0 {
			continue
		}
		if name == "" {
			name = field.Name
		}
		// A field hides those of the same name in embedded structs, which come later.
		if _, known := properties[name]; known {
			continue
		}
		omitted := slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero")
		isPointer := field.Type.Kind() == reflect.Pointer
		property := s.of(field.Type)
		if slices.Contains(options, "string") {
			property = map[string]any{"type": "string"}
		}
		if s.writes && isPointer && !omitted {
			property = orNull(property)
		}
		limit(property, field)
		if words := field.Tag.Get("description"); words != "" {
			property["description"] = words
		}
		otherwise, hasDefault := defaultOf(field)
		if hasDefault {
			property["default"] = otherwise
		}
		isNullable := field.Tag.Get("nullable") == "true"
		if isNullable && !s.writes {
			property = orNull(property)
		}
		properties[name] = property
		if always && (isNullable || !isPointer && !omitted) && !hasDefault {
			*required = append(*required, name)
		}
	}
	for _, field := range embedded {
		inner, isPointer := field.Type, field.Type.Kind() == reflect.Pointer
		if isPointer {
			inner = inner.Elem()
		}
		if slices.Contains(s.around, inner) {
			panic("toolcell: no JSON Schema for " + inner.String() + ", which contains itself: use any in its place")
		}
		within := s
		within.around = append(slices.Clone(s.around), inner)
		within.fields(inner, always && !isPointer, properties, required)
	}
}

// limit adds what the tags enum, minimum, maximum and pattern say of a field, or of each value in its list or map.
func limit(property map[string]any, field reflect.StructField) {
	for _, inside := range []string{"items", "additionalProperties"} {
		if inner, ok := property[inside].(map[string]any); ok {
			property = inner
		}
	}
	if words := field.Tag.Get("enum"); words != "" {
		property["enum"] = strings.Split(words, ",")
	}
	if words := field.Tag.Get("pattern"); words != "" {
		property["pattern"] = words
	}
	for _, name := range []string{"minimum", "maximum"} {
		if words := field.Tag.Get(name); words != "" {
			if _, err := strconv.ParseFloat(words, 64); err != nil {
				panic(fmt.Sprintf("the tag %s of %s is no number: %s", name, field.Name, words))
			}
			property[name] = json.Number(words)
		}
	}
}

// defaultOf returns the value of the tag default, which is JSON, or else a text.
func defaultOf(field reflect.StructField) (any, bool) {
	words, ok := field.Tag.Lookup("default")
	if !ok {
		return nil, false
	}
	inner := field.Type
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	if !json.Valid([]byte(words)) || inner.Kind() == reflect.String && words[0] != '"' {
		return words, true
	}
	return json.RawMessage(words), true
}

// tag returns the name and the options of the tag json.
func tag(field reflect.StructField) (name string, options []string) {
	words := strings.Split(field.Tag.Get("json"), ",")
	return words[0], words[1:]
}

// isEmbedded says whether encoding/json takes the fields of a field without a name for those of the struct around it.
func isEmbedded(field reflect.StructField) bool {
	inner := field.Type
	if inner.Kind() == reflect.Pointer {
		inner = inner.Elem()
	}
	return field.Anonymous && inner.Kind() == reflect.Struct && ownSchema(inner) == nil
}

func orNull(schema map[string]any) map[string]any {
	if kind, ok := schema["type"].(string); ok {
		schema["type"] = []string{kind, "null"}
		return schema
	}
	if len(schema) == 0 {
		return schema
	}
	return map[string]any{"anyOf": []any{schema, map[string]any{"type": "null"}}}
}

// place is what a slice, a pointer or a map refers to.
type place struct {
	kind reflect.Type
	at   unsafe.Pointer
	len  int
}

// filling puts empty lists and maps in the place of nil ones, which encoding/json writes as null and the schema refuses. It has
// the places that it has been at, because a value may contain itself.
type filling map[place]bool

func fill(value reflect.Value) { filling{}.fill(value) }

func (f filling) fill(value reflect.Value) {
	t := value.Type()
	switch value.Kind() {
	case reflect.Slice:
		if own := ownSchema(t); value.IsNil() && (own == nil || own["contentEncoding"] != nil) {
			value.Set(reflect.MakeSlice(t, 0, 0))
		}
	case reflect.Map:
		if value.IsNil() && ownSchema(t) == nil {
			value.Set(reflect.MakeMap(t))
		}
	}
	if ownSchema(t) != nil || f.knows(value) {
		return
	}
	switch value.Kind() {
	case reflect.Interface:
		if !value.IsNil() && hasInside(value.Elem().Type()) {
			value.Set(f.copied(value.Elem()))
		}
	case reflect.Pointer:
		if !value.IsNil() {
			f.fill(value.Elem())
		}
	case reflect.Slice, reflect.Array:
		if hasInside(t.Elem()) {
			for i := range value.Len() {
				f.fill(value.Index(i))
			}
		}
	case reflect.Map:
		if hasInside(t.Elem()) {
			for _, key := range value.MapKeys() {
				value.SetMapIndex(key, f.copied(value.MapIndex(key)))
			}
		}
	case reflect.Struct:
		for i := range value.NumField() {
			field := t.Field(i)
			// One with omitzero is left out only while it is nil.
			_, options := tag(field)
			if (field.IsExported() || isEmbedded(field)) && !slices.Contains(options, "omitzero") {
				f.fill(value.Field(i))
			}
		}
	}
}

// knows says whether fill has been at what a value refers to, and notes that it is now.
func (f filling) knows(value reflect.Value) bool {
	here := place{kind: value.Type()}
	switch value.Kind() {
	case reflect.Slice:
		here.len = value.Len()
	case reflect.Pointer, reflect.Map:
	default:
		return false
	}
	here.at = value.UnsafePointer()
	known := f[here]
	f[here] = true
	return known
}

// copied returns a filled copy of what has no address.
func (f filling) copied(value reflect.Value) reflect.Value {
	made := reflect.New(value.Type()).Elem()
	made.Set(value)
	f.fill(made)
	return made
}

// hasInside says whether a value of this type can have lists or maps in it.
func hasInside(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct, reflect.Interface:
		return true
	}
	return false
}
