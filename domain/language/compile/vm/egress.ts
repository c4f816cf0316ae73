import { listProviderRules, listProviderServices } from '../../../agent/provider-hosts.ts';
import {
  DEFAULT_PORTS,
  EGRESS_LIMITS,
  type EgressPlan,
  type EgressRule,
  type EgressService,
} from '../../../plan/egress.ts';
import type { LlmPlan } from '../../../plan/plan.ts';
import {
  explainClosedRule,
  parseRule,
  parseService,
  PRESET_NAMES,
  presetRules,
  PROVIDER_PRESET,
  serviceInPlaceOf,
} from '../../read/egress-rules.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { SandboxSpec } from '../../read/spec.ts';
import type { Located, Position } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

/**
 * Compiles the egress of a VM: the rules of its sandbox, else those that its agents need to reach their models.
 * @param agents  the model of each agent in the VM
 */
export function compileEgress(
  base: SandboxSpec | null,
  own: SandboxSpec | null,
  agents: readonly (LlmPlan | null)[],
  problems: Problems,
): { readonly egress?: EgressPlan } {
  const said = own?.egress ?? base?.egress ?? null;
  const isOpen = said === null && (own?.network ?? base?.network) === true;
  const services = compileServices([...(own?.services ?? []), ...(base?.services ?? [])], problems);
  const usesProvider = isOpen || (said === null ? agents.length > 0 : true);
  const offered = usesProvider ? agents.flatMap(listProviderServices) : [];
  const all = [...services, ...offered.filter(({ name }) => services.every((other) => other.name !== name))];
  const egress: EgressPlan = { ...compileRules(said, isOpen, agents, problems), services: distinctNames(all) };
  const isNothing = egress.allow !== 'any' && egress.allow.length === 0 && egress.services.length === 0;
  return isNothing ? {} : { egress };
}

type EgressSpec = NonNullable<SandboxSpec['egress']>;

function compileRules(
  said: EgressSpec | null,
  isOpen: boolean,
  agents: readonly (LlmPlan | null)[],
  problems: Problems,
): Pick<EgressPlan, 'allow' | 'deny'> {
  if (isOpen || (said?.variant === 'word' && said.word === 'open')) return { allow: 'any', deny: [] };
  if (said?.variant === 'word') return { allow: [], deny: [] };
  if (said === null) return { allow: distinct(agents.flatMap(listProviderRules)), deny: [] };
  const provided = agents.flatMap(listProviderRules);
  const allow = compileList(said.allow, 'allow', agents.length === 0 ? null : provided, problems);
  if (allow.some((rule) => rule.kind === 'network')) warnOfDeniedNames(said.deny, problems);
  return {
    allow,
    // A rule without a port denies every port: with the default ports, others would stay open.
    deny: compileList(said.deny, 'deny', agents.length === 0 ? null : provided, problems),
  };
}

/**
 * Warns of names in `deny`: a network in `allow` opens addresses by number, and no list has all addresses of a name.
 */
function warnOfDeniedNames(entries: readonly Located<string>[], problems: Problems): void {
  for (const entry of entries) {
    const rule = presetRules(entry.value)?.[0] ?? parseRule(entry.value, 'any');
    if (typeof rule === 'string' || rule.kind === 'network') continue;
    const rest =
      rule.kind === 'host'
        ? 'blocks only the IP addresses to which the host resolves this name while the VM runs'
        : 'blocks no IP address, because the names that match it are not known';
    problems.warning(
      'spec/bad-value',
      entry.at,
      `${quote(entry.value)} in \`deny\` of \`egress\` ${rest}; a network in \`allow\` still allows all other addresses of the service`,
      'name hosts instead of networks in `allow`, or add the networks of this name to `deny`',
    );
  }
}

/** @param provided  the rules of the preset `provider`; null if the VM has no agent */
function compileList(
  entries: readonly Located<string>[],
  key: 'allow' | 'deny',
  provided: readonly EgressRule[] | null,
  problems: Problems,
): readonly EgressRule[] {
  const ports = key === 'allow' ? DEFAULT_PORTS : 'any';
  const rules = entries.flatMap((entry): readonly EgressRule[] => {
    // The reader has already reported an empty entry.
    if (entry.value === '') return [];
    if (entry.value === PROVIDER_PRESET) return provided ?? reportMissingProvider(entry, problems);
    const preset = presetRules(entry.value);
    if (preset !== null) return key === 'allow' ? preset : preset.map((rule) => ({ ...rule, ports }));
    const rule = parseRule(entry.value, ports);
    const closed = typeof rule === 'string' || key === 'deny' ? null : explainClosedRule(rule);
    if (typeof rule !== 'string' && closed === null) return [rule];
    if (typeof rule !== 'string') {
      const message = `${quote(entry.value)} in \`${key}\` of \`egress\` ${closed}`;
      problems.error('spec/bad-value', entry.at, message, serviceInPlaceOf(rule));
      return [];
    }
    problems.error(
      'spec/bad-value',
      entry.at,
      `${quote(entry.value)} in \`${key}\` of \`egress\` ${rule}`,
      `write a host (example.com, *.example.com, example.com:8443), a network (198.41.0.0/16) or one of: ${PRESET_NAMES.join(', ')}`,
    );
    return [];
  });
  const last = entries.at(-1);
  if (rules.length > EGRESS_LIMITS.rules && last !== undefined)
    problems.error(
      'spec/too-large',
      last.at,
      `\`${key}\` of \`egress\` expands to ${rules.length} rules; at most ${EGRESS_LIMITS.rules} are allowed`,
      'write one domain with `*.` instead of its hosts',
    );
  return distinct(rules);
}

function reportMissingProvider({ at }: { readonly at: Position }, problems: Problems): readonly EgressRule[] {
  problems.error(
    'spec/bad-value',
    at,
    '`provider` allows the hosts of an agent, but this VM runs no agent',
    'write the hosts instead',
  );
  return [];
}

function compileServices(specs: NonNullable<SandboxSpec['services']>, problems: Problems): readonly EgressService[] {
  const over = specs[EGRESS_LIMITS.services];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over.at,
      `a VM gets ${specs.length} services; it can have at most ${EGRESS_LIMITS.services}`,
      'remove those that no stage uses',
    );
  return specs.slice(0, EGRESS_LIMITS.services).flatMap(({ name, value }): EgressService[] => {
    const parsed = parseService(value.value);
    if (typeof parsed !== 'string') return [{ name, ...parsed }];
    problems.error(
      'spec/bad-value',
      value.at,
      `the service ${name} is ${quote(value.value)}, which ${parsed}`,
      `write \`${name}: HOST:PORT\`, such as \`${name}: 127.0.0.1:5432\``,
    );
    return [];
  });
}

/** A stage's service replaces the spec's service of the same name. */
function distinctNames(services: readonly EgressService[]): readonly EgressService[] {
  return services.filter(({ name }, index) => services.findIndex((other) => other.name === name) === index);
}

function distinct(rules: readonly EgressRule[]): readonly EgressRule[] {
  return [...new Map(rules.map((rule) => [JSON.stringify(rule), rule])).values()];
}
