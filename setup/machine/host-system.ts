/** Identifies this Linux, and the way in which its users install packages. */
import { readFileSync } from 'node:fs';
import { SetupError } from '../setup-error.ts';

export type Distribution = 'debian' | 'fedora' | 'arch' | 'suse' | 'alpine' | 'other';

export interface HostSystem {
  readonly distribution: Distribution;
  /** The distribution's own name, such as "Debian GNU/Linux 12 (bookworm)". */
  readonly name: string;
}

const INSTALL_COMMANDS: Readonly<Record<Distribution, string | null>> = {
  debian: 'apt-get install -y --no-install-recommends',
  fedora: 'dnf install -y',
  arch: 'pacman -S --needed --noconfirm',
  suse: 'zypper --non-interactive install',
  alpine: 'apk add',
  other: null,
};

/** Returns the system. Throws a SetupError if Voidbox cannot run on it at all. */
export function readHostSystem(
  platform: string = process.platform,
  architecture: string = process.arch,
  osRelease: string = readOsRelease(),
): HostSystem {
  if (platform !== 'linux' || architecture !== 'x64') {
    throw new SetupError(
      `Voidbox runs its micro-VMs on Linux on x86-64 only, and this machine is ${platform} on ${architecture}.`,
      null,
    );
  }
  const fields = parseOsRelease(osRelease);
  return {
    distribution: distributionOf(fields),
    name: fields.get('PRETTY_NAME') ?? fields.get('NAME') ?? 'an unnamed Linux',
  };
}

function readOsRelease(): string {
  for (const file of ['/etc/os-release', '/usr/lib/os-release']) {
    try {
      return readFileSync(file, 'utf8');
    } catch {
      // The second path is the standard's fallback; a system with neither is "other".
    }
  }
  return '';
}

function parseOsRelease(text: string): Map<string, string> {
  const fields = new Map<string, string>();
  for (const line of text.split('\n')) {
    const match = /^([A-Z_]+)=(?:"(.*)"|'(.*)'|(.*))$/.exec(line.trim());
    if (match?.[1] !== undefined) fields.set(match[1], match[2] ?? match[3] ?? match[4] ?? '');
  }
  return fields;
}

function distributionOf(fields: ReadonlyMap<string, string>): Distribution {
  const names = `${fields.get('ID') ?? ''} ${fields.get('ID_LIKE') ?? ''}`.toLowerCase().split(/\s+/);
  for (const name of names) {
    if (name === 'debian' || name === 'ubuntu') return 'debian';
    if (name === 'fedora' || name === 'rhel' || name === 'centos') return 'fedora';
    if (name === 'arch' || name === 'alpine') return name;
    if (name === 'suse' || name === 'opensuse' || name.startsWith('opensuse-') || name === 'sles') return 'suse';
  }
  return 'other';
}

/** Returns the command that installs the packages; for root without `sudo`. */
export function installLine(system: HostSystem, packages: readonly string[], isRoot: boolean): string | null {
  const command = INSTALL_COMMANDS[system.distribution];
  return command === null ? null : `${isRoot ? '' : 'sudo '}${command} ${packages.join(' ')}`;
}
