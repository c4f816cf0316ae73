/** Parses entries of `egress` and `services`: `host:port`, `*.host`, networks, presets. */
import { findClosedNetwork, isLoopbackName } from '../../security/closed-networks.ts';
import { DEFAULT_PORTS, EGRESS_LIMITS, type EgressPorts, type EgressRule } from '../../plan/egress.ts';

/** Each preset is a short list of hosts that seldom change; none opens a whole company. */
export const EGRESS_PRESETS: Readonly<Record<string, readonly string[]>> = {
  npm: ['registry.npmjs.org'],
  pypi: ['pypi.org', 'files.pythonhosted.org'],
  debian: ['deb.debian.org', 'security.debian.org', 'snapshot.debian.org'],
  github: [
    'github.com',
    'api.github.com',
    'codeload.github.com',
    'raw.githubusercontent.com',
    'objects.githubusercontent.com',
    'release-assets.githubusercontent.com',
  ],
};

/** The preset for the hosts that an agent's provider needs. */
export const PROVIDER_PRESET = 'provider';

export const PRESET_NAMES: readonly string[] = [PROVIDER_PRESET, ...Object.keys(EGRESS_PRESETS)];

export function presetRules(name: string): readonly EgressRule[] | null {
  const hosts = Object.hasOwn(EGRESS_PRESETS, name) ? EGRESS_PRESETS[name]! : null;
  return hosts?.map((host) => ({ kind: 'host', name: host, ports: DEFAULT_PORTS })) ?? null;
}

/** @returns the rule, or the problem; the rule has `ports` if the entry sets no port */
export function parseRule(text: string, ports: EgressPorts): EgressRule | string {
  const split = splitPort(text);
  if (typeof split === 'string') return split;
  const said = split.port === null ? ports : [split.port];
  if (split.host.includes('/')) {
    const cidr = networkOf(split.host);
    return cidr === null ? 'is not a network such as 198.41.0.0/16' : { kind: 'network', cidr, ports: said };
  }
  const address = addressBits(split.host);
  if (address !== null) return { kind: 'network', cidr: `${split.host}/${address}`, ports: said };
  const isBelow = split.host.startsWith('*.');
  const name = hostName(isBelow ? split.host.slice(2) : split.host);
  if (name === null) return 'is not a host such as example.com, *.example.com or example.com:8443';
  return { kind: isBelow ? 'subdomains' : 'host', name, ports: said };
}

/**
 * Explains a rule of `allow` that opens nothing: only `services` reach such addresses.
 * @returns null for a rule that can open something
 */
export function explainClosedRule(rule: EgressRule): string | null {
  if (rule.kind !== 'network') {
    const isLoopback = isLoopbackName(rule.name);
    return isLoopback ? "is the host's loopback, which `allow` cannot open; only `services` can reach it" : null;
  }
  const closed = findClosedNetwork(rule.cidr);
  return closed === null ? null : `is ${closed.what}, which \`allow\` cannot open; only \`services\` can reach it`;
}

/** Returns the remedy for a rule that {@link explainClosedRule} explains, for a service at one port. */
export function serviceInPlaceOf(rule: EgressRule): string {
  const host = rule.kind === 'network' ? rule.cidr.replace(/\/\d+$/, '') : rule.name;
  const port = rule.ports === 'any' || rule.ports.length > 1 ? 'PORT' : String(rule.ports[0]);
  const place = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  return `remove it, and name the server in \`services\`: \`services: { NAME: "${place}" }\``;
}

/** @returns the host and port of a service, or the problem */
export function parseService(text: string): { readonly host: string; readonly port: number } | string {
  const split = splitPort(text);
  if (typeof split === 'string') return split;
  const host = addressBits(split.host) === null ? hostName(split.host) : split.host;
  if (host === null || split.port === null) return 'is not a host with a port, such as 127.0.0.1:5432';
  return { host, port: split.port };
}

/**
 * Returns a service that a worker allows, in the form for comparison with services of plans. Null: the text is not a
 * host with a port.
 */
export function readAllowedService(text: string): string | null {
  const parsed = parseService(text);
  if (typeof parsed === 'string') return null;
  return parsed.host.includes(':') ? `[${parsed.host}]:${parsed.port}` : `${parsed.host}:${parsed.port}`;
}

/** Returns a host name as the keeper accepts it; null for a name that a resolver could read as an address. */
export function hostName(text: string): string | null {
  const name = text.replace(/\.$/, '').toLowerCase();
  const labels = name.split('.');
  const isLabel = (label: string): boolean => /^[a-z0-9_-]{1,63}$/.test(label);
  if (name.length > EGRESS_LIMITS.hostCharacters || !labels.every(isLabel)) return null;
  return /^(?:0x[0-9a-f]*|[0-9]+)$/.test(labels.at(-1)!) ? null : name;
}

/** Returns the length of an address in bits; null if the text is not an address. */
export function addressBits(text: string): 32 | 128 | null {
  const parts = text.split('.');
  if (parts.length === 4 && parts.every((part) => /^(?:0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255)) return 32;
  return isVersion6(text) ? 128 : null;
}

function isVersion6(text: string): boolean {
  if (!/^[0-9A-Fa-f:]+$/.test(text) || text.includes(':::')) return false;
  const halves = text.split('::');
  const groups = halves.flatMap((half) => (half === '' ? [] : half.split(':')));
  if (!groups.every((group) => /^[0-9A-Fa-f]{1,4}$/.test(group))) return false;
  return halves.length === 1 ? groups.length === 8 : halves.length === 2 && groups.length < 8;
}

/** Returns a network as rules contain it; null if the text is not a network. */
export function networkOf(text: string): string | null {
  const [address = '', prefix = '', ...more] = text.split('/');
  const bits = addressBits(address);
  const isPrefix = /^\d{1,3}$/.test(prefix) && bits !== null && Number(prefix) <= bits;
  return isPrefix && more.length === 0 ? `${address}/${Number(prefix)}` : null;
}

/** Splits `host`, `host:port`, `[IPv6 address]:port`, `[network]:port`, `[address]/prefix:port`. */
function splitPort(text: string): { readonly host: string; readonly port: number | null } | string {
  if (text.includes('://')) return 'is a URL; write only its host and port';
  // The prefix length of a network is within the brackets or after them.
  const match = /^\[([^\]]+)\](\/\d+)?(?::(\d+))?$/.exec(text) ?? /^([^:]*)()(?::(\d+))?$/.exec(text);
  if (match === null) {
    // An IPv6 address without brackets has no port.
    return text.includes('::') || text.split(':').length > 2
      ? { host: text, port: null }
      : 'has no port after its colon';
  }
  const [, bare = '', prefix = '', digits] = match;
  const host = `${bare}${prefix}`;
  if (digits === undefined) return { host, port: null };
  const port = Number(digits);
  return port >= 1 && port <= 65_535 ? { host, port } : `has the port ${digits}; ports are between 1 and 65535`;
}
