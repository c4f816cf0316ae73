/** The network that a VM reaches through its door. Presets are expanded, and no value belongs to one host. */

export const EGRESS_LIMITS = {
  /** Rules of `allow`, and rules of `deny`; a preset counts as the rules that it expands to. */
  rules: 256,
  services: 32,
  /** Ports of one rule. */
  ports: 32,
  hostCharacters: 253,
  serviceNameCharacters: 63,
} as const;

/** The ports of a rule of `allow` that sets no port. */
export const DEFAULT_PORTS: readonly number[] = [80, 443];

/** The network access of a sandbox. Absent: the sandbox reaches nothing. */
export interface EgressPlan {
  /**
   * `any` is the internet, at every port. Neither form opens the host's loopback, private networks or metadata
   * addresses.
   */
  readonly allow: 'any' | readonly EgressRule[];
  /** Takes precedence over `allow`. */
  readonly deny: readonly EgressRule[];
  readonly services: readonly EgressService[];
}

export type EgressRule =
  /** One name, in lower case. */
  | { readonly kind: 'host'; readonly name: string; readonly ports: EgressPorts }
  /** All names below a name, without the name itself. */
  | { readonly kind: 'subdomains'; readonly name: string; readonly ports: EgressPorts }
  /** Addresses, as `198.41.0.0/16`. */
  | { readonly kind: 'network'; readonly cidr: string; readonly ports: EgressPorts };

export type EgressPorts = 'any' | readonly number[];

/** A host that the guest reaches by `name`, wherever it is: a host of the worker's network, or its loopback. */
export interface EgressService {
  readonly name: string;
  readonly host: string;
  /** The port in the guest and on the host. */
  readonly port: number;
}

/** Describes the access on one line, for people. */
export function describeEgress(egress: EgressPlan | undefined): string {
  if (egress === undefined) return 'no network';
  const { allow, deny, services } = egress;
  const reached = [
    ...(allow === 'any' ? ['the internet'] : allow.map(describeRule)),
    ...services.map(({ name, host, port }) => `service ${name} (${hostAndPort(host, port)})`),
  ];
  const denied = deny.length === 0 ? '' : ` except ${shortList(deny.map(describeRule))}`;
  return reached.length === 0 ? 'no network' : `reaches ${shortList(reached)}${denied}`;
}

const SHOWN = 8;

function shortList(texts: readonly string[]): string {
  const more = texts.length - SHOWN;
  return more > 0 ? `${texts.slice(0, SHOWN).join(', ')} and ${more} more` : texts.join(', ');
}

export function describeRule(rule: EgressRule): string {
  const { ports } = rule;
  const what = rule.kind === 'host' ? rule.name : rule.kind === 'subdomains' ? `*.${rule.name}` : rule.cidr;
  if (ports === 'any') return `${what} at any port`;
  const isUsual = ports.length === DEFAULT_PORTS.length && ports.every((port) => DEFAULT_PORTS.includes(port));
  return isUsual ? what : `${what} at ${ports.length === 1 ? 'port' : 'ports'} ${ports.join(', ')}`;
}

function hostAndPort(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
