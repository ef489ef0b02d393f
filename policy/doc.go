// Package policy decides, from policy files alone, what becomes of a call.
//
// A file gives defaults and rules; the first rule that matches a call decides
// it, and what the rule leaves open comes from the defaults, the profile and
// what is built in, in this order. Loading is strict and reports everything
// that is wrong at once; deciding is pure and cannot fail.
package policy
