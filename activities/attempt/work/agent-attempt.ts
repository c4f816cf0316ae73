/** The parts that the attempts of an agent and of a step machine have in common: both drive the command line of an agent. */
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

/** What an agent may use, which is checked before its VM and again in it. */
export interface AgentMeans {
  /** What the agents of the run have used; null: the run has no budget. */
  readonly ledger: RunLedger | null;
  /** Null: no login that is known to end. */
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

/** While the agent waited for its VM, other agents went on, and so did the clock. @throws StartFailure, CodedError `host/login-expires` */
export async function demandMeansAgain({ deps, request }: AttemptVm, { ledger, login }: AgentMeans): Promise<void> {
  await ledger?.refuseUsedUp();
  await requireValidLogin(deps, request, login);
  await warnOfLoginEnd(deps, request, login);
}

/** Neither published nor saved. */
export function drivenAgent(vm: AttemptVm, { ledger }: AgentMeans, work: AgentWork | StepMachineWork): DrivenAgent {
  return { vm, agent: agentOfWork(work), account: { work, ledger }, published: null, progress: null };
}

/** Does the work while the ledger reads what other agents of the run use. */
export async function withLedger<T>(driven: DrivenAgent, work: () => Promise<T>): Promise<T> {
  const followed = driven.account.ledger?.follow(driven.vm.life.detached);
  try {
    return await work();
  } finally {
    await followed?.stop();
  }
}

/** Keeps what an agent has done that did not succeed. */
export async function endAttempt(
  { vm, progress }: DrivenAgent,
  turns: readonly AgentTurn[],
  result: StageResult,
): Promise<WorkEnd> {
  // Before git of the guest packs the changes: what that leaves is no part of a save.
  await saveAtEnd({ progress, life: vm.life }, result);
  return { result: await keepPartialWork(vm, result), execs: execsOf(turns) };
}
