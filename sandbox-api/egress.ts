/** The network destinations of a sandbox, from its program, in the syntax of specs. */
import {
  DEFAULT_PORTS,
  EGRESS_LIMITS,
  type EgressPlan,
  type EgressRule,
  type EgressService,
} from '../domain/plan/egress.ts';
import {
  EGRESS_PRESETS,
  explainClosedRule,
  parseRule,
  parseService,
  PROVIDER_PRESET,
  presetRules,
} from '../domain/language/read/egress-rules.ts';
import { HOST_LABEL, RESERVED_LABELS } from '../domain/language/grammar/values.ts';
import { checkKnown, refuse } from './check.ts';

/**
 * Hosts (`example.com`, `*.example.com`) and networks, each with `:port` or for 80 and 443, and presets: `npm`, `pypi`,
 * `debian`, `github`.
 */
export type SandboxEgress = 'none' | 'open' | SandboxEgressRules;

export interface SandboxEgressRules {
  readonly allow?: readonly string[];
  /** Takes precedence over `allow`; without `:port` for every port. */
  readonly deny?: readonly string[];
}

/** `host:port` by the name in the guest. Services may also be on this machine's loopback and in its network. */
export type SandboxServices = Readonly<Record<string, string>>;

/** @throws TypeError that names the option. Absent: the VM can reach no destination and has no door */
export function checkEgress(egress: SandboxEgress = 'none', services: SandboxServices = {}): EgressPlan | undefined {
  const found = checkServices(services);
  if (egress === 'open') return { allow: 'any', deny: [], services: found };
  if (egress === 'none') return found.length === 0 ? undefined : { allow: [], deny: [], services: found };
  if (typeof egress !== 'object' || egress === null)
    throw refuse('egress', egress, "'none', 'open' or { allow, deny }");
  checkKnown<SandboxEgressRules>('the keys of `egress`', egress, { allow: true, deny: true });
  const allow = checkRules('egress.allow', egress.allow ?? [], DEFAULT_PORTS);
  const deny = checkRules('egress.deny', egress.deny ?? [], 'any');
  return allow.length === 0 && found.length === 0 ? undefined : { allow, deny, services: found };
}

function checkRules(option: string, entries: readonly string[], ports: EgressRule['ports']): readonly EgressRule[] {
  if (!Array.isArray(entries)) throw refuse(option, entries, 'a list of hosts, networks and presets');
  const rules = (entries as readonly string[]).flatMap((entry, index): readonly EgressRule[] => {
    const expected = `a host (example.com, *.example.com, example.com:8443), a network (198.41.0.0/16) or one of ${Object.keys(EGRESS_PRESETS).join(', ')}`;
    // This preset is only for stages with agents. As a host it would allow nothing.
    if (typeof entry !== 'string' || entry === PROVIDER_PRESET) throw refuse(`${option}[${index}]`, entry, expected);
    const preset = presetRules(entry);
    if (preset !== null) return preset.map((rule) => ({ ...rule, ports }));
    const rule = parseRule(entry, ports);
    if (typeof rule === 'string') throw refuse(`${option}[${index}]`, entry, expected);
    const closed = option === 'egress.allow' ? explainClosedRule(rule) : null;
    if (closed !== null) throw refuse(`${option}[${index}]`, entry, `${expected}; it ${closed}`);
    return [rule];
  });
  if (rules.length > EGRESS_LIMITS.rules)
    throw refuse(option, `${rules.length} rules`, `at most ${EGRESS_LIMITS.rules}`);
  return rules;
}

function checkServices(services: SandboxServices): readonly EgressService[] {
  if (typeof services !== 'object' || services === null || Array.isArray(services))
    throw refuse('services', services, "names with their place: { db: '127.0.0.1:5432' }");
  const named = Object.entries(services);
  if (named.length > EGRESS_LIMITS.services)
    throw refuse('services', `${named.length} services`, `at most ${EGRESS_LIMITS.services}`);
  return named.map(([name, place]) => {
    if (!HOST_LABEL.test(name) || RESERVED_LABELS.includes(name))
      throw refuse('services', name, 'names of small letters, digits and -, and none that every guest has');
    const parsed = typeof place === 'string' ? parseService(place) : 'is not a text';
    if (typeof parsed === 'string')
      throw refuse(`services.${name}`, place, 'a host with a port, such as 127.0.0.1:5432');
    return { name, ...parsed };
  });
}
