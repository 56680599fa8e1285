package queryable

import (
	"math"
	"strconv"
	"strings"
)

// parseDate reads an ISO 8601 date, with a signed year of more digits too, or
// one of DuckDB's infinities.
func parseDate(s string) (int64, error) {
	switch strings.ToLower(s) {
	case "infinity":
		return math.MaxInt32, nil
	case "-infinity":
		return -math.MaxInt32, nil
	}
	day, err := parseDay(s)
	if err == nil && (day >= math.MaxInt32 || day <= -math.MaxInt32) {
		err = errRange
	}
	return day, err
}

func parseDay(s string) (int64, error) {
	sign := int64(1)
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		sign, s = -1, rest
	} else {
		s = strings.TrimPrefix(s, "+")
	}
	parts := strings.Split(s, "-")
	if len(parts) != 3 || len(parts[0]) < 4 || len(parts[0]) > 7 || len(parts[1]) != 2 || len(parts[2]) != 2 {
		return 0, errForm
	}
	var n [3]int64
	for i, p := range parts {
		v, err := digits(p)
		if err != nil {
			return 0, err
		}
		n[i] = v
	}
	y, m, d := sign*n[0], n[1], n[2]
	if m < 1 || m > 12 || d < 1 {
		return 0, errRange
	}
	day := daysOf(y, m, d)
	if gy, gm, gd := civil(day); gy != y || gm != m || gd != d {
		return 0, errRange
	}
	return day, nil
}

// digits reads a number that has no sign.
func digits(s string) (int64, error) {
	v, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, errForm
	}
	return int64(v), nil
}

// parseClock reads hours:minutes[:seconds[.fraction]] in units of a second's
// fraction. More digits than the unit has are an error unless they are zeros.
func parseClock(s string, perSecond int64) (int64, error) {
	s, fraction, pointed := strings.Cut(s, ".")
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || pointed && (len(parts) != 3 || fraction == "") {
		return 0, errForm
	}
	var seconds int64
	for i, p := range parts {
		v, err := digits(p)
		if err != nil || len(p) < 2 || i > 0 && (len(p) != 2 || v > 59) {
			return 0, errForm
		}
		if seconds > math.MaxInt64/60/perSecond {
			return 0, errRange
		}
		seconds = seconds*60 + v
	}
	if len(parts) == 2 {
		seconds *= 60
	}
	width := len(strconv.FormatInt(perSecond, 10)) - 1
	if len(fraction) > width {
		if strings.Trim(fraction[width:], "0") != "" {
			return 0, errRange
		}
		fraction = fraction[:width]
	}
	var f int64
	if width > 0 {
		v, err := digits(fraction + strings.Repeat("0", width-len(fraction)))
		if err != nil {
			return 0, err
		}
		f = v
	}
	if seconds > (math.MaxInt64-f)/perSecond {
		return 0, errRange
	}
	return seconds*perSecond + f, nil
}

// parseTimestamp reads an ISO 8601 date and time, apart by T or a space, with
// an optional zone (Z or ±hh[:mm]). Without a zone it is UTC; a type without
// time zone takes none but Z.
func parseTimestamp(s string, perSecond int64, zoned bool) (int64, error) {
	switch strings.ToLower(s) {
	case "infinity":
		return math.MaxInt64, nil
	case "-infinity":
		return -math.MaxInt64, nil
	}
	date, clock := s, "00:00:00"
	if i := strings.IndexAny(s, "Tt "); i >= 0 {
		date, clock = s[:i], s[i+1:]
	}
	day, err := parseDay(date)
	if err != nil {
		return 0, err
	}
	clock, offset, err := cutZone(clock)
	if err != nil || offset != 0 && !zoned {
		return 0, errForm
	}
	t, err := parseClock(clock, perSecond)
	if err != nil {
		return 0, err
	}
	perDay := 86400 * perSecond
	if t >= perDay {
		return 0, errRange
	}
	// Before 1970 the day may lie below the range and the sum within it.
	if day < 0 {
		day, t = day+1, t-perDay
	}
	if day > math.MaxInt64/perDay || day < math.MinInt64/perDay {
		return 0, errRange
	}
	v, t := day*perDay, t-offset*perSecond
	if t > 0 && v > math.MaxInt64-t || t < 0 && v < math.MinInt64-t {
		return 0, errRange
	}
	v += t
	if v == math.MaxInt64 || v <= -math.MaxInt64 {
		return 0, errRange
	}
	return v, nil
}

// cutZone takes the zone off a time of day, as seconds east of UTC.
func cutZone(s string) (clock string, offset int64, err error) {
	if rest, ok := strings.CutSuffix(strings.ToUpper(s), "Z"); ok {
		return rest, 0, nil
	}
	i := strings.LastIndexAny(s, "+-")
	if i < 0 {
		return s, 0, nil
	}
	zone := s[i+1:]
	if len(zone) == 2 {
		zone += ":00"
	}
	v, err := parseClock(zone, 1)
	if err != nil || len(zone) != 5 || v > 24*3600 {
		return "", 0, errForm
	}
	if s[i] == '-' {
		v = -v
	}
	return s[:i], v, nil
}
