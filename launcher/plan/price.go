package plan

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/configs/resolve"
)

// Price is the cost of the machine per hour. The zero value means unknown.
type Price struct {
	PerHour  float64
	Currency string // a symbol such as $, or an ISO 4217 code in capitals; empty: unknown
}

// PriceFlag holds the text of --price. As with resolve.KeyFlag, the text is parsed after all flags are known. An
// empty text is an error.
type PriceFlag struct {
	text  string
	given bool
}

// String implements pflag.Value.
func (p *PriceFlag) String() string { return p.text }

// Set implements pflag.Value.
func (p *PriceFlag) Set(text string) error {
	p.text, p.given = text, true
	return nil
}

// Type implements pflag.Value.
func (p *PriceFlag) Type() string { return "price" }

// Add defines the flag.
func (p *PriceFlag) Add(f *pflag.FlagSet) {
	f.Var(p, "price", "`price` of the machine per hour, such as 1.29, $1.29/h or 1.29 EUR/h ("+resolve.PriceVariable+")")
}

// Price parses the flag, or the environment variable if the flag is not set. An invalid price is a *configs.Error.
func (p *PriceFlag) Price(getenv func(string) string) (Price, error) {
	text, source := p.text, "--price"
	if !p.given {
		if text, source = getenv(resolve.PriceVariable), resolve.PriceVariable; text == "" {
			return Price{}, nil
		}
	}
	out, err := parsePrice(text)
	return out, configs.WithSource(err, source)
}

var priceForm = regexp.MustCompile(`^(?:(\p{Sc}|[A-Za-z]{3}) ?)?([0-9]{1,7}(?:\.[0-9]{1,6})?)(?: ?(\p{Sc}|[A-Za-z]{3}))?(?: ?/ ?h)?$`)

func parsePrice(text string) (Price, error) {
	refuse := &configs.Error{Key: "price", Value: text, Allowed: "a price per hour above 0, such as 1.29, 1.29/h, $1.29/h or 1.29 EUR/h"}
	parts := priceForm.FindStringSubmatch(strings.TrimSpace(text))
	if parts == nil || parts[1] != "" && parts[3] != "" {
		return Price{}, refuse
	}
	value, err := strconv.ParseFloat(parts[2], 64)
	if err != nil || value <= 0 {
		return Price{}, refuse
	}
	return Price{value, strings.ToUpper(parts[1] + parts[3])}, nil
}
