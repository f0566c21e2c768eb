package toolcell

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// arguments reads the arguments of a call, which the host has compared with the schema.
func arguments[In any](input []byte) (in In, err error) {
	input = withDefaults(input, reflect.TypeFor[In]())
	err = json.Unmarshal(input, &in)
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) && strings.HasPrefix(mismatch.Value, "number ") {
		// JSON Schema takes 5.0 and 1e3 for integers, and models write them; encoding/json does not.
		var again In
		if err = json.Unmarshal(plainIntegers(input), &again); err == nil {
			return again, nil
		}
	}
	if !errors.As(err, &mismatch) || mismatch.Field == "" {
		if err != nil {
			err = Errorf(InvalidArguments, "invalid_arguments", "the arguments do not fit: %v", err)
		}
		return in, err
	}
	return in, Errorf(InvalidArguments, "invalid_arguments", "the argument %s does not fit: the tool takes no %s there, but %s",
		mismatch.Field, mismatch.Value, mismatch.Type)
}

// Arguments reads the arguments of a call, for the packages beside this one.
func Arguments[In any](input []byte) (In, error) { return arguments[In](input) }

// withDefaults adds the defaults of the fields that an input lacks.
func withDefaults(input []byte, t reflect.Type) []byte {
	if !hasDefaults(t, nil) {
		return input
	}
	reader := json.NewDecoder(bytes.NewReader(input))
	// A number stays as it was written.
	reader.UseNumber()
	var value any
	if reader.Decode(&value) != nil {
		return input
	}
	complete(value, t)
	made, err := json.Marshal(value)
	if err != nil {
		return input
	}
	return made
}

func hasDefaults(t reflect.Type, around []reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hasDefaults(t.Elem(), around)
	case reflect.Struct:
		if ownSchema(t) != nil || slices.Contains(around, t) {
			return false
		}
		for i := range t.NumField() {
			if _, ok := defaultOf(t.Field(i)); ok || hasDefaults(t.Field(i).Type, append(around, t)) {
				return true
			}
		}
	}
	return false
}

func complete(value any, t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		complete(value, t.Elem())
	case reflect.Slice, reflect.Array:
		items, _ := value.([]any)
		for _, item := range items {
			complete(item, t.Elem())
		}
	case reflect.Map:
		members, _ := value.(map[string]any)
		for _, member := range members {
			complete(member, t.Elem())
		}
	case reflect.Struct:
		members, ok := value.(map[string]any)
		if !ok || ownSchema(t) != nil {
			return
		}
		for i := range t.NumField() {
			completeField(members, t.Field(i))
		}
	}
}

func completeField(members map[string]any, field reflect.StructField) {
	name, _ := tag(field)
	if name == "" && isEmbedded(field) {
		complete(members, field.Type)
		return
	}
	if name == "" {
		name = field.Name
	}
	found, ok := members[name]
	if otherwise, has := defaultOf(field); has && !ok {
		members[name] = otherwise
	} else if ok {
		complete(found, field.Type)
	}
}

// plainIntegers writes each number of a JSON text without a fraction and an exponent, if it is an integer of up to 20 digits.
func plainIntegers(text []byte) []byte {
	made := make([]byte, 0, len(text))
	for at := 0; at < len(text); {
		end := at + 1
		switch first := text[at]; {
		case first == '"':
			for end < len(text) && text[end] != '"' {
				if text[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end+1, len(text))
			made = append(made, text[at:end]...)
		case first == '-' || first >= '0' && first <= '9':
			for end < len(text) && strings.IndexByte("+-.eE0123456789", text[end]) >= 0 {
				end++
			}
			made = append(made, plainInteger(string(text[at:end]))...)
		default:
			made = append(made, first)
		}
		at = end
	}
	return made
}

// plainInteger writes one number, exactly; as it is if that would not be an integer of up to 20 digits.
func plainInteger(number string) string {
	mantissa, power := number, 0
	if at := strings.IndexAny(number, "eE"); at >= 0 {
		mantissa = number[:at]
		parsed, err := strconv.Atoi(number[at+1:])
		if err != nil {
			return number
		}
		power = parsed
	}
	digits, isNegative := strings.CutPrefix(mantissa, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	fraction = strings.TrimRight(fraction, "0")
	digits = strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	// The value is the digits, times ten to this power.
	power -= len(fraction)
	for power < 0 && strings.HasSuffix(digits, "0") {
		digits, power = digits[:len(digits)-1], power+1
	}
	if power < 0 || power > 20 || len(digits)+power > 20 {
		return number
	}
	digits += strings.Repeat("0", power)
	if isNegative {
		return "-" + digits
	}
	return digits
}
