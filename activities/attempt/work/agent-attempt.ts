/** Parts that attempts of agents and of step machines have in common: both drive the command line of an agent. */
import type { AgentWork, StepMachineWork } from '../../../domain/plan/plan.ts';
import { agentOfWork } from '../../agent/command.ts';
import type { DrivenAgent } from '../../agent/driven-agent.ts';
import { saveAtEnd } from '../../agent/progress.ts';
import { openLedger, type RunLedger } from '../../agent/shared/ledger.ts';
import { type AgentLogin, requireValidLogin, warnOfLoginEnd } from '../../agent/shared/login.ts';
import { requireModelServer } from '../../agent/shared/model-server.ts';
import { type AgentTurn, execsOf } from '../../agent/turns.ts';
import type { StageResult } from '../../../domain/run/stage-result.ts';
import type { StageEnvironment } from '../host-variables.ts';
import { keepPartialWork } from '../partial-work.ts';
import type { Attempt, AttemptVm } from '../stage-attempt.ts';
import type { WorkEnd } from './attempt-work.ts';

/** The budget and the login of an agent, which are checked before its VM and again in the VM. */
export interface AgentMeans {
  /** The usage of the run's agents; null: the run has no budget. */
  readonly ledger: RunLedger | null;
  /** Null if no login has a known expiry. */
  readonly login: AgentLogin | null;
}

/** @throws StartFailure, CodedError `host/login-expires` */
export async function demandMeans(attempt: Attempt, { login }: StageEnvironment): Promise<AgentMeans> {
  const { deps, request } = attempt;
  const ledger = await openLedger(deps, request);
  await requireValidLogin(deps, request, login);
  await requireModelServer(attempt);
  return { ledger, login };
}

/**
 * Repeats the checks, because other agents worked and time passed while the agent waited for its VM.
 * @throws StartFailure, CodedError `host/login-expires`
 */
export async function demandMeansAgain({ deps, request }: AttemptVm, { ledger, login }: AgentMeans): Promise<void> {
  await ledger?.refuseUsedUp();
  await requireValidLogin(deps, request, login);
  await warnOfLoginEnd(deps, request, login);
}

/** Creates an agent whose work is neither published nor saved. */
export function drivenAgent(vm: AttemptVm, { ledger }: AgentMeans, work: AgentWork | StepMachineWork): DrivenAgent {
  return { vm, agent: agentOfWork(work), account: { work, ledger }, published: null, progress: null };
}

/** Does the work while the ledger reads the usage of the run's other agents. */
export async function withLedger<T>(driven: DrivenAgent, work: () => Promise<T>): Promise<T> {
  const followed = driven.account.ledger?.follow(driven.vm.life.detached);
  try {
    return await work();
  } finally {
    await followed?.stop();
  }
}

/** Ends the attempt, and keeps the work of an agent that did not succeed. */
export async function endAttempt(
  { vm, progress }: DrivenAgent,
  turns: readonly AgentTurn[],
  result: StageResult,
): Promise<WorkEnd> {
  // Save before the guest's git packs the changes: the files of the packing are not part of a save.
  await saveAtEnd({ progress, life: vm.life }, result);
  return { result: await keepPartialWork(vm, result), execs: execsOf(turns) };
}
