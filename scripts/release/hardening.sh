#!/usr/bin/env bash
# Checks how a binary is protected, as the linker and the compilers have written it down; prints one line for each.
#
# usage: scripts/release/hardening.sh [BINARY]
. "$(dirname "$0")/common.sh"

binary=${1:-$binary}
[ -f "$binary" ] || fail "find $binary: build it with scripts/release/build.sh"
command -v readelf >/dev/null || fail "find readelf: install binutils"
headers=$(readelf --wide --file-header --program-headers --dynamic "$binary" 2>/dev/null) || fail "read $binary: no ELF file"
if grep -q NEEDED <<<"$headers"; then
  guarded=$(readelf --wide --dyn-syms "$binary" 2>/dev/null | grep -m 1 __stack_chk_fail || true)
else
  # A static binary has no names: the instruction that reads the guard.
  guarded=$(objdump --disassemble "$binary" 2>/dev/null | grep -m 1 '%fs:0x28' || true)
fi
bad=0
check() { # check WHAT WHY YES-OR-NO
  printf '%-28s %-4s %s\n' "$1" "$3" "$2"
  [ "$3" = yes ] || bad=1
}
has() { grep -Eq -- "$1" <<<"$2" && echo yes || echo no; }
lacks() { grep -Eq -- "$1" <<<"$2" && echo no || echo yes; }

check "PIE" "code is at another address in each run" "$(has 'Type: +DYN .*(Position-Independent|Shared)' "$headers")"
check "RELRO" "tables of addresses are read-only after the start" "$(has 'GNU_RELRO' "$headers")"
check "immediate binding" "all of them, because nothing is bound later" "$(has 'BIND_NOW|Flags:.* NOW' "$headers")"
check "stack not executable" "NX" "$(has 'GNU_STACK .* RW +0' "$headers")"
check "no segment W and X" "nothing written is executed" "$(lacks 'LOAD .* RWE ' "$headers")"
check "no RPATH" "libraries are the system's" "$(lacks '\((RPATH|RUNPATH)\)' "$headers")"
check "stack protector" "of the C parts; Rust checks its bounds" "$([ -n "$guarded" ] && echo yes || echo no)"
check "no text relocations" "code is never written" "$(lacks '\(TEXTREL\)' "$headers")"
check "few libraries" "$(grep -o 'NEEDED.*\[.*\]' <<<"$headers" | sed 's/.*\[\(.*\)\]/\1/' | tr '\n' ' ')" \
  "$(lacks 'NEEDED.*\[' "$(grep NEEDED <<<"$headers" | grep -Ev '\[(libc|libm|libgcc_s|libssl|libcrypto|ld-linux-x86-64|ld-linux-aarch64|libpthread|libdl|librt)\.so' || true)")"
[ $bad = 0 ] || fail "$binary lacks what is said above with no"
