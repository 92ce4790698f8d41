#!/bin/sh
# Gets what `go run ./numa/vmtest` needs, from Debian's or Ubuntu's packages: QEMU,
# installed, and a kernel, which is only unpacked into the user's cache directory.
# Does nothing where both are there. Asks for root (sudo) only to install.
set -eu

cache=${XDG_CACHE_HOME:-$HOME/.cache}/flatrock-vmtest
root=
if [ "$(id -u)" != 0 ]; then root=sudo; fi

kernel_package() {
	# The package without a version depends on the one with: that holds the kernel.
	for name in linux-image-cloud-amd64 linux-image-amd64 linux-image-virtual; do
		found=$(apt-cache depends "$name" 2>/dev/null | sed -n 's/^ *Depends: *\(linux-image-[0-9][^ ]*\)$/\1/p' | head -n 1)
		if [ -n "$found" ]; then
			echo "$found"
			return
		fi
	done
}

if command -v qemu-system-x86_64 >/dev/null && [ -s "$cache/vmlinuz" ]; then
	exit 0
fi
if ! command -v apt-get >/dev/null; then
	echo "setup.sh: no apt-get here: install qemu-system-x86_64, and give vmtest a kernel with -kernel" >&2
	exit 1
fi
if [ -z "$(kernel_package)" ]; then
	$root apt-get update -q
fi
if ! command -v qemu-system-x86_64 >/dev/null; then
	$root apt-get install -q -y --no-install-recommends qemu-system-x86 ||
		{ $root apt-get update -q && $root apt-get install -q -y --no-install-recommends qemu-system-x86; }
fi
if [ ! -s "$cache/vmlinuz" ]; then
	package=$(kernel_package)
	if [ -z "$package" ]; then
		echo "setup.sh: apt-cache knows no linux-image package" >&2
		exit 1
	fi
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/unpack.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	(cd "$work" && apt-get download -q "$package" && dpkg-deb -x ./*.deb . && mv boot/vmlinuz-* ../vmlinuz)
	echo "setup.sh: $package is at $cache/vmlinuz"
fi
