package units

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMoneyOfAnySize(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		amount         float64
		currency, want string
	}{
		{4.0993, "$", "$4.10"}, {0, "$", "$0.00"}, {27.4, "EUR", "27.40 EUR"}, {1234.5, "", "1234.50"}, {0.01, "$", "$0.01"}, {0.0149, "€", "€0.01"},
		{0.003, "$", "$0.0030"}, {0.00312, "EUR", "0.0031 EUR"}, {0.00996, "$", "$0.01"}, {0.00994, "$", "$0.0099"}, {0.001, "", "0.0010"},
		{0.000999, "", "0.0010"}, {0.0000012, "$", "$0.0000012"}, {1e-9, "$", "<$0.000001"}, {1e-9, "USD", "<0.000001 USD"},
	} {
		require.Equal(t, x.want, Money(x.amount, x.currency))
	}
	require.Equal(t, []string{"$27", "€9.99", "$0.0042"}, []string{MoneyAbout(27.4, "$"), MoneyAbout(9.994, "€"), MoneyAbout(0.0042, "$")})
	require.Equal(t, []string{"$1.29/h", "0.5 EUR/h"}, []string{PerHour(1.29, "$"), PerHour(0.5, "EUR")})
}

func TestMoneyNeverReadsAsNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Float64Range(1e-6, 0.0099).Draw(t, "amount")
		text := Money(amount, "")
		got, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		require.InEpsilon(t, amount, got, 0.051, text)
		require.GreaterOrEqual(t, len(strings.TrimLeft(text, "0.")), 2, text)
	})
}
