/**
 * Warns of VMs with too little memory for their contents when the spec is read, long before a kernel kills a command.
 */
import type { SandboxPlan } from '../../plan/plan.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Located } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';

/** Node and git run in less memory, but then read their files from the disk again and again. */
const DEV_IMAGE_MIB = 384;
/** The command line of an agent, the kernel and the guest's agent need this much together. */
const AGENT_MIB = 512;

/** @param stage  the first stage of the VM */
export function warnOfLittleMemory(
  stage: Located<string>,
  { mode, memoryMib, image }: SandboxPlan,
  hasAgents: boolean,
  problems: Problems,
): void {
  if (mode === 'mock') return;
  const needs = [
    ...(hasAgents ? [{ what: 'the command line of an agent', mib: AGENT_MIB }] : []),
    ...(image?.kind === 'dev' ? [{ what: '`image: dev`', mib: DEV_IMAGE_MIB }] : []),
  ];
  const [first] = needs.filter(({ mib }) => memoryMib < mib);
  if (first === undefined) return;
  problems.warning(
    'spec/little-memory',
    stage.at,
    `the VM of ${quote(stage.value)} has ${memoryMib} MiB of memory, and ${first.what} needs ${first.mib} or more`,
    `raise \`memory_mb\` of its sandbox to ${first.mib}`,
  );
}
