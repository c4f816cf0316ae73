/** The kinds of work that a stage does in a VM. */
import type { VmStage } from '../../calls/requests.ts';
import { agentKind } from './agent.ts';
import type { WorkKind } from './attempt-work.ts';
import { commandKind } from './command.ts';
import { stepMachineKind } from './step-machine.ts';

type Work = VmStage['work'];

const KINDS: { readonly [Name in Work['kind']]: WorkKind<Extract<Work, { readonly kind: Name }>> } = {
  command: commandKind,
  agent: agentKind,
  skill: stepMachineKind,
};

export function kindOf({ kind }: Work): WorkKind<Work> {
  return KINDS[kind];
}
