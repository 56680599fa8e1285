package demo

import "math/rand/v2"

// city and its share of the shop's customers.
type city struct {
	name, country string
	weight        int
}

// cities are the largest first: the head of the skew that the views show.
var cities = []city{
	{"Berlin", "DE", 140},
	{"Paris", "FR", 120},
	{"London", "GB", 110},
	{"Madrid", "ES", 80},
	{"Amsterdam", "NL", 75},
	{"Rome", "IT", 60},
	{"München", "DE", 55},
	{"Vienna", "AT", 45},
	{"Zürich", "CH", 42},
	{"Lisbon", "PT", 38},
	{"Warszawa", "PL", 34},
	{"København", "DK", 30},
	{"Stockholm", "SE", 28},
	{"Dublin", "IE", 25},
	{"Brussels", "BE", 22},
	{"Lyon", "FR", 19},
	{"Barcelona", "ES", 17},
	{"Milano", "IT", 15},
	{"Hamburg", "DE", 13},
	{"Oslo", "NO", 11},
	{"Helsinki", "FI", 9},
	{"Praha", "CZ", 8},
	{"Porto", "PT", 7},
	{"Göteborg", "SE", 6},
	{"Kraków", "PL", 5},
	{"Genève", "CH", 4},
	{"Antwerp", "BE", 3},
	{"Málaga", "ES", 2},
	{"Reykjavík", "IS", 1},
	{"Valletta", "MT", 1},
}

var (
	firstNames = []string{"Ada", "Björn", "Chloé", "Dmitri", "Elif", "Femke", "Giulia", "Hugo", "Inés", "Jonas", "Katarzyna", "Liam", "Maja", "Noor", "Oskar", "Zoë"}
	lastNames  = []string{"Andersen", "Berg", "Costa", "Dubois", "Eriksson", "Fischer", "García", "Hughes", "Ivanova", "Jansen", "Kowalski", "López", "Müller", "Novák", "O'Neill", "Rossi"}
	tiers      = []string{"basic", "basic", "basic", "basic", "basic", "silver", "silver", "gold"}
	statuses   = []string{"paid", "paid", "paid", "paid", "paid", "shipped", "shipped", "shipped", "pending", "cancelled"}
	devices    = []string{"mobile", "mobile", "mobile", "desktop", "desktop", "tablet"}
	sections   = []string{"/", "/search", "/cart", "/checkout", "/account", "/help"}
)

const (
	customers = 50_000
	products  = 600
)

// customer is what the shop knows of a customer; it follows from the id alone.
type customer struct {
	id          int64
	first, last string
	tier        string
	home        city
}

// scatter spreads small numbers over 64 bits (the finalizer of splitmix64).
func scatter(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

func customerOf(id int64) customer {
	h := scatter(uint64(id))
	return customer{
		id:    id,
		first: firstNames[h%16],
		last:  lastNames[h>>4%16],
		tier:  tiers[h>>8%8],
		home:  cityAt(int(h >> 16 % uint64(weights))),
	}
}

// weights is the sum over all cities.
const weights = 1025

func cityAt(n int) city {
	for _, c := range cities {
		if n -= c.weight; n < 0 {
			return c
		}
	}
	return cities[0]
}

// price of a product in cents.
func price(sku int) int64 {
	h := scatter(uint64(sku) << 32)
	return 199 + int64(h%4000) + int64(h>>20%20)*int64(h>>40%900)
}

func pick(r *rand.Rand, of []string) string { return of[r.IntN(len(of))] }
