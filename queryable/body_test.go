package queryable

import "testing"

func TestBodyHoldsCharactersOnly(t *testing.T) {
	for text, want := range map[string]int{
		"":                       -1,
		`{"a":"ü😀\n\\\"\u0041"}`: -1,
		`"\ud83d\ude00"`:         -1,
		`"\uD83D\uDE00x"`:        -1,
		`"\\ud800"`:              -1, // a backslash, then letters
		`"\ufffd"`:               -1,
		`"�"`:                    -1,
		"\"\xff\"":               1,
		"\"a\xc3\"":              2,
		`"\ud800"`:               1,
		`"x\ude00\ud83d"`:        2,
		`"\ud83d\u0041"`:         1,
		`"\\\ud83d"`:             3,
		`"\ud83d`:                1,
		`"\u12`:                  -1, // no JSON, but that is the decoder's to say
		`"\`:                     -1,
	} {
		if got := notText([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
