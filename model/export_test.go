package model

// RaceEnabled reports whether the tests were built with the race detector.
const RaceEnabled = raceEnabled
