package plan

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sapo-swarm/swarm/configs"
	"github.com/sapo-swarm/swarm/internal/units"
)

func noVariable(string) string { return "" }

func TestAPriceIsANumberWithACurrencyOnOneSide(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Price{
		"1.29": {1.29, ""}, "1.29/h": {1.29, ""}, "$1.29/h": {1.29, "$"}, "1.29 €/h": {1.29, "€"}, "EUR 1.29": {1.29, "EUR"},
		"1.29usd/h": {1.29, "USD"}, "£2": {2, "£"}, " 3.5 / h ": {3.5, ""}, "¥180/h": {180, "¥"},
	} {
		flag := PriceFlag{text: text, given: true}
		got, err := flag.Price(noVariable)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestWhatIsNoPriceAnHourIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "free", "0", "0.00/h", "-1", "1,29", "1.29/day", "$31/d", "$1.29 EUR", "1.29/h/h", "1e3", "NaN", "Inf", ".5", "1.", "$", "12345678",
		"1.29 euros", "1.29\n",
	} {
		flag := PriceFlag{text: text, given: true}
		_, err := flag.Price(noVariable)
		if text == "1.29\n" { // the shell may add surrounding blanks
			require.NoError(t, err)
			continue
		}
		var mistake *configs.Error
		require.ErrorAs(t, err, &mistake, text)
		require.Equal(t, "--price", mistake.Source)
	}
}

func TestThePriceVariableGivesWayToTheFlag(t *testing.T) {
	t.Parallel()
	variable := func(name string) string {
		require.Equal(t, "SWARM_PRICE", name)
		return "$2/h"
	}
	var none, given PriceFlag
	got, err := none.Price(variable)
	require.NoError(t, err)
	require.Equal(t, Price{2, "$"}, got)
	require.NoError(t, given.Set("3"))
	got, err = given.Price(variable)
	require.NoError(t, err)
	require.Equal(t, Price{3, ""}, got)
	_, err = none.Price(func(string) string { return "cheap" })
	require.EqualError(t, err, `bad price "cheap" (SWARM_PRICE): allowed: a price per hour above 0, such as 1.29, 1.29/h, $1.29/h or 1.29 EUR/h`)
	got, err = none.Price(noVariable)
	require.NoError(t, err)
	require.Zero(t, got)
}

// parsePrice reads what units.Money writes.
func TestMoneyCanBeReadBackAsAPrice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cents := rapid.IntRange(1, 9_999_999).Draw(t, "cents")
		currency := rapid.SampledFrom([]string{"", "$", "€", "£", "USD", "EUR"}).Draw(t, "currency")
		text := units.Money(float64(cents)/100, currency)
		got, err := parsePrice(text + rapid.SampledFrom([]string{"", "/h", " /h"}).Draw(t, "suffix"))
		require.NoError(t, err)
		require.Equal(t, currency, got.Currency)
		require.Equal(t, fmt.Sprintf("%.2f", float64(cents)/100), fmt.Sprintf("%.2f", got.PerHour))
	})
}
