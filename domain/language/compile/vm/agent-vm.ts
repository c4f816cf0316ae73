/**
 * Checks whether a VM suits the agents in it. It runs when the spec is read, because the plan no longer shows the
 * settings that it compares.
 */
import { CLI_NEEDS, cliOf } from '../../../agent/agent-cli.ts';
import { listProviderRules, listProviderServices } from '../../../agent/provider-hosts.ts';
import type { EgressRule } from '../../../plan/egress.ts';
import type { LlmPlan, SandboxPlan } from '../../../plan/plan.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { SandboxSpec } from '../../read/spec.ts';
import type { Located } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

interface AgentVm {
  /** The sandbox of the spec. */
  readonly base: SandboxSpec | null;
  /** The sandbox of the stage. */
  readonly own: SandboxSpec | null;
  readonly sandbox: SandboxPlan;
  /** The model of each agent in the VM. */
  readonly agents: readonly (LlmPlan | null)[];
  /** Variables that the spec sets for the stages. */
  readonly variables: readonly string[];
}

/** @param stage  the first stage of the VM */
export function checkAgentVm(stage: Located<string>, vm: AgentVm, problems: Problems): void {
  if (vm.sandbox.mode === 'mock') return;
  warnOfBaseImage(stage, vm, problems);
  refuseTwoModelServers(stage, vm, problems);
  warnOfModelOutOfReach(stage, vm, problems);
}

function warnOfBaseImage(stage: Located<string>, { base, own, agents }: AgentVm, problems: Problems): void {
  const image = own?.image ?? base?.image ?? null;
  const cli = agents.map(cliOf).find((each) => CLI_NEEDS[each].image !== null);
  if (image?.value !== 'base' || cli === undefined) return;
  problems.warning(
    'spec/bad-value',
    image.at,
    `the VM of ${quote(stage.value)} has \`image: ${CLI_NEEDS[cli].image}\` and not \`base\`, in which the command line ${cli} does not start`,
    `write \`image: ${CLI_NEEDS[cli].image}\`, or remove it`,
  );
}

/**
 * Rejects two model servers of the host: both have the same name in the guest, and a name there is one host and one
 * port.
 */
function refuseTwoModelServers(stage: Located<string>, { base, own, agents }: AgentVm, problems: Problems): void {
  const said = new Set([...(own?.services ?? []), ...(base?.services ?? [])].map(({ name }) => name));
  const servers = agents.flatMap(listProviderServices).filter(({ name }) => !said.has(name));
  const other = servers.find(({ port }) => port !== servers[0]!.port);
  if (other === undefined) return;
  problems.error(
    'spec/bad-value',
    stage.at,
    `agents of the VM of ${quote(stage.value)} use two model servers of the worker's host, at the ports ${servers[0]!.port} and ${other.port}; a VM can reach only one`,
    'write `sandbox: {}` in one of the stages, so that it gets its own VM',
  );
}

/** Variables that direct an agent to another server than its `llm` names. */
const LEADS_ELSEWHERE = /_(?:BASE_URL|PROXY)$/i;

/** Warns if the rules exclude the model: the agent would retry for minutes before it gives up. */
function warnOfModelOutOfReach(stage: Located<string>, vm: AgentVm, problems: Problems): void {
  const { base, own, sandbox, agents, variables } = vm;
  const said = own?.egress ?? base?.egress ?? null;
  // The model may be reachable through a service.
  const services = own?.services?.length || base?.services?.length;
  if (said === null || services || variables.some((name) => LEADS_ELSEWHERE.test(name))) return;
  const allow = sandbox.egress?.allow ?? [];
  const deny = sandbox.egress?.deny ?? [];
  // The first rule is for the model; the agent works without the others.
  const model = agents.flatMap((llm) => listProviderRules(llm).slice(0, 1));
  for (const rule of model) {
    const isDenied = deny.some((other) => covers(other, rule));
    // The compiler cannot resolve the name to addresses, so any network may contain it.
    if (!isDenied && (allow === 'any' || allow.some((other) => other.kind === 'network' || covers(other, rule))))
      continue;
    const host = rule.kind === 'network' ? rule.cidr : rule.name;
    problems.warning(
      'spec/bad-value',
      said.at,
      `\`egress\` of the VM of ${quote(stage.value)} ${isDenied ? 'denies' : 'does not allow'} ${host}, which its agent calls`,
      isDenied
        ? `remove the entry from \`deny\` that matches it`
        : 'add `provider` to `allow`: `egress: { allow: [provider, …] }`',
    );
    return;
  }
}

function covers(rule: EgressRule, host: EgressRule): boolean {
  if (rule.kind === 'network' || host.kind === 'network') return false;
  // An agent uses one port: 443 if the rule has several.
  const port = host.ports === 'any' ? 443 : Math.max(...host.ports);
  if (rule.ports !== 'any' && !rule.ports.includes(port)) return false;
  return rule.kind === 'host' ? rule.name === host.name : host.name.endsWith(`.${rule.name}`);
}
