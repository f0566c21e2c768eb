package toolcell

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
)

// arguments reads the arguments of a call, which the host has compared with the schema.
func arguments[In any](input []byte) (in In, err error) {
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
