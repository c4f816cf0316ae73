import { describe, expect, it } from 'vitest';
import { installLine, readHostSystem } from './host-system.ts';
import { SetupError } from '../setup-error.ts';

describe('readHostSystem', () => {
  it.each([
    ['ID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"', 'debian', 'Debian GNU/Linux 12 (bookworm)'],
    ['ID=linuxmint\nID_LIKE="ubuntu debian"\nNAME=Mint', 'debian', 'Mint'],
    ['ID="rocky"\nID_LIKE="rhel centos fedora"\nNAME="Rocky Linux"', 'fedora', 'Rocky Linux'],
    ["ID=manjaro\nID_LIKE='arch'\nNAME=Manjaro", 'arch', 'Manjaro'],
    ['ID="opensuse-tumbleweed"\nID_LIKE="opensuse suse"\nNAME=x', 'suse', 'x'],
    ['ID=alpine\nNAME="Alpine Linux"', 'alpine', 'Alpine Linux'],
    ['ID=nixos\nNAME=NixOS', 'other', 'NixOS'],
    ['', 'other', 'an unnamed Linux'],
  ])('reads %j', (text, distribution, name) => {
    expect(readHostSystem('linux', 'x64', text)).toEqual({ distribution, name });
  });

  it.each([
    ['darwin', 'arm64'],
    ['linux', 'arm64'],
  ])('says in one sentence that %s on %s is not supported', (platform, architecture) => {
    const attempt = (): unknown => readHostSystem(platform, architecture, '');
    expect(attempt).toThrow(SetupError);
    expect(attempt).toThrow(`Linux on x86-64 only, and this machine is ${platform} on ${architecture}.`);
  });
});

describe('installLine', () => {
  const packages = ['bubblewrap', 'e2fsprogs'];
  it.each([
    ['debian', 'sudo apt-get install -y --no-install-recommends bubblewrap e2fsprogs'],
    ['fedora', 'sudo dnf install -y bubblewrap e2fsprogs'],
    ['arch', 'sudo pacman -S --needed --noconfirm bubblewrap e2fsprogs'],
    ['suse', 'sudo zypper --non-interactive install bubblewrap e2fsprogs'],
    ['alpine', 'sudo apk add bubblewrap e2fsprogs'],
    ['other', null],
  ] as const)('is the line of %s', (distribution, line) => {
    expect(installLine({ distribution, name: '' }, packages, false)).toBe(line);
  });

  it('needs no sudo for root', () => {
    expect(installLine({ distribution: 'alpine', name: '' }, packages, true)).toBe('apk add bubblewrap e2fsprogs');
  });
});
