package task

import (
	"errors"
	"math/big"
	"slices"
)

// maxRhoSteps bounds the search for one prime factor: enough for factors of about 11 digits.
const maxRhoSteps = 1 << 19

// errFactor reports a number without small factors that rho cannot split within its bound. The library tries every
// number up to the square root and would not end on it.
var errFactor = errors.New("number too hard to factor")

// sortedDivisors returns the divisors of n > 0 in ascending order.
func sortedDivisors(n *big.Int) ([]*big.Int, error) {
	primes, err := primeFactors(n)
	if err != nil {
		return nil, err
	}
	divisors := []*big.Int{big.NewInt(1)}
	for i := 0; i < len(primes); {
		prime, power, old := primes[i], big.NewInt(1), len(divisors)
		for ; i < len(primes) && primes[i].Cmp(prime) == 0; i++ {
			power = new(big.Int).Mul(power, prime)
			for _, d := range divisors[:old] {
				divisors = append(divisors, new(big.Int).Mul(d, power))
			}
		}
	}
	slices.SortFunc(divisors, (*big.Int).Cmp)
	return divisors, nil
}

// pairedDivisors returns the divisors of n > 0 in the library's order: the smallest, the largest, the second
// smallest, the second largest and so on.
func pairedDivisors(n *big.Int) ([]*big.Int, error) {
	sorted, err := sortedDivisors(n)
	if err != nil {
		return nil, err
	}
	paired := make([]*big.Int, 0, len(sorted))
	for i, j := 0, len(sorted)-1; i <= j; i, j = i+1, j-1 {
		paired = append(paired, sorted[i])
		if i < j {
			paired = append(paired, sorted[j])
		}
	}
	return paired, nil
}

// primeFactors returns the prime factors of n > 0, ascending, repeated by multiplicity.
func primeFactors(n *big.Int) ([]*big.Int, error) {
	rest := new(big.Int).Set(n)
	var primes []*big.Int
	var quotient, remainder big.Int
	for p := int64(2); p < 1000 && rest.Cmp(big.NewInt(p*p)) >= 0; p++ {
		prime := big.NewInt(p)
		for {
			quotient.QuoRem(rest, prime, &remainder)
			if remainder.Sign() != 0 {
				break
			}
			rest.Set(&quotient)
			primes = append(primes, prime)
		}
	}
	large, err := splitPrimes(rest, nil)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(large, (*big.Int).Cmp)
	return append(primes, large...), nil
}

// splitPrimes appends the prime factors of n. n must be prime or have no factor below 1000.
func splitPrimes(n *big.Int, primes []*big.Int) ([]*big.Int, error) {
	if n.Cmp(big.NewInt(1)) == 0 {
		return primes, nil
	}
	if n.Cmp(big.NewInt(1_000_000)) < 0 || n.ProbablyPrime(8) {
		return append(primes, n), nil
	}
	factor, err := rhoFactor(n)
	if err != nil {
		return nil, err
	}
	if primes, err = splitPrimes(factor, primes); err != nil {
		return nil, err
	}
	return splitPrimes(new(big.Int).Quo(n, factor), primes)
}

// rhoFactor returns a proper factor of the composite n, by Pollard's rho in Brent's form (BIT 20, 1980).
func rhoFactor(n *big.Int) (*big.Int, error) {
	one := big.NewInt(1)
	var difference, square big.Int
	steps := 0
	for c := int64(1); ; c++ {
		increment := big.NewInt(c)
		advance := func(x *big.Int) {
			square.Mul(x, x)
			x.Rem(square.Add(&square, increment), n)
		}
		tortoise, hare := big.NewInt(2), big.NewInt(2)
		divisor := new(big.Int).Set(one)
		for length := 1; divisor.Cmp(one) == 0; length *= 2 {
			tortoise.Set(hare)
			for done := 0; done < length && divisor.Cmp(one) == 0; {
				// Differences are multiplied together, so that one gcd serves a batch.
				product, batch := big.NewInt(1), min(64, length-done)
				start := new(big.Int).Set(hare)
				for range batch {
					advance(hare)
					product.Mul(product, difference.Sub(tortoise, hare))
					product.Rem(product, n)
				}
				done += batch
				if divisor.GCD(nil, nil, product.Abs(product), n); divisor.Cmp(n) == 0 {
					for hare, divisor = start, divisor.Set(one); divisor.Cmp(one) == 0; {
						advance(hare)
						divisor.GCD(nil, nil, difference.Sub(tortoise, hare).Abs(&difference), n)
					}
				}
				if steps += batch; steps > maxRhoSteps {
					return nil, errFactor
				}
			}
		}
		if divisor.Cmp(n) != 0 {
			return divisor, nil
		}
	}
}
