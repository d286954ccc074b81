package task

import "time"

// The lists below have one wording for each of the library's, in its order, so that the draws are the same.

// longDate formats a date like "Sunday, September 10, 2023".
func longDate(date time.Time) string { return date.Format("Monday, January 2, 2006") }

func dayPhrases() []string {
	return []string{
		"Answer with a weekday name such as Monday.",
		"Reply with the full weekday name.",
		"Give one of Monday to Sunday.",
		"Spell the weekday out.",
		"Write only the weekday.",
		"Use the full name of the weekday.",
		"The answer is one of Monday, Tuesday, ..., Sunday.",
		"Answer with the whole name of the day.",
		"Give the day's full name.",
	}
}

func countPhrases() []string {
	return []string{
		"Answer with digits only.",
		"Give the number.",
		"Reply with a number only.",
		"Write one number.",
		"The answer is a number.",
		"Use digits for the answer.",
		"Answer with one integer.",
		"Write the answer in digits.",
	}
}

// forwardTemplates have placeholders for the start and the number of days.
func forwardTemplates() []string {
	return []string{
		"Today is %s. Which weekday comes %d days later?",
		"Begin at %s. Which weekday is %d days after it?",
		"Start on %s and go forward %d days. Which weekday is that?",
	}
}

// backwardTemplates have placeholders for the start and the number of days.
func backwardTemplates() []string {
	return []string{
		"Today is %s. Which weekday was it %d days earlier?",
		"Begin at %s. Which weekday is %d days before it?",
		"Start on %s and go back %d days. Which weekday is that?",
	}
}

// weekdayTemplates have placeholders for the date in words and in numbers.
func weekdayTemplates() []string {
	return []string{
		"Which weekday is %[1]s?",
		"%[1]s falls on which weekday?",
		"Find the weekday of %[2]s (month/day/year).",
	}
}

// firstDayTemplates have placeholders for the weekday of January 1 and the date.
func firstDayTemplates() []string {
	return []string{
		"January 1 is a %s. Which weekday is %s of that year?",
		"A year begins on a %s. On which weekday is its %s?",
		"The first day of a year is a %s. Find the weekday of %s.",
	}
}

// eventTemplates have placeholders for the ordinal, the weekday and the month with its year.
func eventTemplates() []string {
	return []string{
		"A meeting is on the %s %s of %s. Which day of the month is that?",
		"An event takes place every month on the %s %s. On which day of the month is it in %s?",
		"Which day of the month is the %s %s of %s?",
	}
}

// countTemplates have placeholders for the weekday, the first and the last date.
func countTemplates() []string {
	return []string{
		"How many times is it %s from %s through %s, both dates included?",
		"Count each %s from %s through %s. Both dates count.",
		"How often does a %s come in the days %s through %s, first and last day included?",
	}
}

// businessTemplates have placeholders for the first and the last date.
func businessTemplates() []string {
	return []string{
		"How many days from %s through %s are Monday to Friday, both dates included?",
		"Count the days that are no Saturday or Sunday from %s through %s. Both dates count.",
		"How many business days (Monday to Friday) lie in %s through %s, first and last day included?",
	}
}

// leapTemplates have a placeholder for the year.
func leapTemplates() []string {
	return []string{
		"Leap year or not: %d?",
		"Does the year %d have a February 29?",
		"Decide whether %d is a leap year.",
	}
}
