/** What a VM cannot be for the agents in it: told when the spec is read, since neither is seen in the plan. */
import { CLI_NEEDS, cliOf } from '../agent/agent-cli.ts';
import { providerServices } from '../agent/provider-hosts.ts';
import type { LlmPlan, SandboxPlan } from '../plan/plan.ts';
import type { Problems } from './problems.ts';
import type { SandboxSpec } from './spec.ts';
import { type Located, quote } from './tree.ts';

interface AgentVm {
  /** Of the spec. */
  readonly base: SandboxSpec | null;
  /** Of the stage. */
  readonly own: SandboxSpec | null;
  readonly sandbox: SandboxPlan;
  /** The model of each agent in it. */
  readonly agents: readonly (LlmPlan | null)[];
}

/** @param stage  the first of the VM */
export function checkAgentVm(stage: Located<string>, vm: AgentVm, problems: Problems): void {
  if (vm.sandbox.mode === 'mock') return;
  warnOfBaseImage(stage, vm, problems);
  refuseTwoModelServers(stage, vm, problems);
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

/** Each is called the same in the guest, where a name is one host and one port. */
function refuseTwoModelServers(stage: Located<string>, { base, own, agents }: AgentVm, problems: Problems): void {
  const said = new Set([...(own?.services ?? []), ...(base?.services ?? [])].map(({ name }) => name));
  const servers = agents.flatMap(providerServices).filter(({ name }) => !said.has(name));
  const other = servers.find(({ port }) => port !== servers[0]!.port);
  if (other === undefined) return;
  problems.error(
    'spec/bad-value',
    stage.at,
    `agents of the VM of ${quote(stage.value)} use two model servers of the worker's host, at the ports ${servers[0]!.port} and ${other.port}, and a VM reaches one of them`,
    'give one of the stages a VM of its own: write `sandbox: {}` in it',
  );
}
