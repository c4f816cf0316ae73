/**
 * Which agents of a retry continue from a save of the earlier run. Pure: the command line prints it, and admission
 * decides by it.
 */
import { ownersOf, ownStageOf } from '../plan/item-parts.ts';
import { findCostProblem } from '../plan-rules/agent-limits.ts';
import type { Plan, StagePlan } from '../plan/plan.ts';
import { isSharedScope } from '../plan/scope.ts';
import { answeringOf, isService, partOf } from '../plan/work.ts';
import type { AttemptsBySeries, AttemptSeries, ContinuedAgent } from '../run/agent-saves.ts';
import { parseExecKey } from '../run/attempt.ts';
import { formatStageName } from '../run/instance.ts';
import type { ContinueRequest } from '../run/origin.ts';
import type { Reuse } from './reuse.ts';

export interface EarlierAgents {
  readonly attempts: AttemptsBySeries;
  /** The saves that the earlier run itself continued from, by series. */
  readonly continued: Readonly<Record<string, ContinuedAgent>>;
}

export interface ContinuingAgent {
  /** The name that people use: `fix`, `fixes[1].work`. */
  readonly name: string;
  /** Its id in the plan. */
  readonly stage: string;
  readonly agent: ContinuedAgent;
}

/** The reason why a retry cannot continue it, which selects the remedy. */
export type ContinueObstacle =
  | 'unsaved'
  | 'shares-vm'
  | 'differs'
  | 'runs-again'
  | 'never-saved'
  | 'cost'
  | 'fresh'
  | 'too-many'
  | 'none-left';

export interface Continuation {
  /** By series, in the order in which they began. */
  readonly agents: ReadonlyMap<string, ContinuingAgent>;
  /** The reasons why the retry cannot start, a sentence each; empty: it can start. */
  readonly problems: readonly string[];
  /** Names of agents that cannot continue; with these in `fresh` the others can. */
  readonly cannot: readonly string[];
  /** The kinds of obstacles in `problems`. */
  readonly obstacles: ReadonlySet<ContinueObstacle>;
  /** Names in `fresh` that no agent has. */
  readonly unknownFresh: readonly string[];
}

/** Limit of one retry, because each is a record of the run, with some 700 bytes. */
export const MOST_CONTINUED = 1_000;

/** @param reuse  of the same two runs */
export function continuingIn(plan: Plan, reuse: Reuse, earlier: EarlierAgents, request: ContinueRequest): Continuation {
  const candidates = candidatesOf(plan, reuse, earlier);
  const fresh = new Set(request.fresh ?? []);
  const whyNot = obstacles(plan, reuse);
  const agents = new Map<string, ContinuingAgent>();
  const problems: string[] = [];
  const cannot: string[] = [];
  const found = new Set<ContinueObstacle>();
  for (const { series, name, stage, save } of candidates) {
    if (fresh.has(name) || fresh.has(stage.id)) continue;
    const why = whyNot(stage) ?? (save === null ? explainNotSaved(plan, stage) : null);
    const ofCost = findCostProblem(stage, request);
    if (why !== null) {
      problems.push(`the agent of stage ${name} cannot continue: ${why.text}`);
      cannot.push(name);
      found.add(why.obstacle);
    } else if (ofCost !== null) {
      problems.push(ofCost);
      found.add('cost');
    } else agents.set(series, { name, stage: stage.id, agent: save! });
  }
  const names = new Set(candidates.flatMap(({ name, stage }) => [name, stage.id]));
  const unknownFresh = [...fresh].filter((name) => !names.has(name));
  for (const name of unknownFresh) {
    problems.push(`no agent of a stage ${name} failed, so none starts from its beginning`);
    found.add('fresh');
  }
  if (agents.size > MOST_CONTINUED) {
    problems.push(`${agents.size} agents are to continue; a retry continues at most ${MOST_CONTINUED}`);
    found.add('too-many');
  }
  if (agents.size === 0 && problems.length === 0) {
    problems.push('no agent is left to continue');
    found.add('none-left');
  }
  return { agents, problems: [...new Set(problems)], cannot, obstacles: found, unknownFresh };
}

interface Candidate {
  readonly series: string;
  readonly name: string;
  readonly stage: StagePlan;
  readonly save: ContinuedAgent | null;
}

const NOT_STARTED: AttemptSeries = { state: 'open', hasStarted: false, save: null };

/** Agents that did not succeed, of stages that run again. */
function candidatesOf(plan: Plan, { again }: Reuse, { attempts, continued }: EarlierAgents): readonly Candidate[] {
  const stages = new Map(plan.stages.map((stage) => [stage.id, stage]));
  const ownOf = ownStageOf(plan);
  return [...new Set([...attempts.keys(), ...Object.keys(continued)])].flatMap((series) => {
    const attempted = parseExecKey(`${series}/1`);
    const stage = attempted === null ? undefined : stages.get(attempted.stage);
    if (attempted === null || stage === undefined || answeringOf(stage.work) === null || !again.has(ownOf(stage.id)))
      return [];
    // Only items of a list have attempts.
    if (stage.each !== undefined && attempted.instance.at(-1)?.part !== stage.id) return [];
    const last = attempts.get(series) ?? NOT_STARTED;
    if (last.state === 'succeeded' || last.state === 'passed') return [];
    const save = last.save ?? (Object.hasOwn(continued, series) ? continued[series]! : null);
    // An agent that did nothing loses nothing.
    if (!last.hasStarted && save === null) return [];
    return [{ series, name: formatStageName(stage.id, attempted.instance), stage, save }];
  });
}

interface ObstacleText {
  readonly obstacle: ContinueObstacle;
  readonly text: string;
}

/** Why the work of a stage does not fit the save of its agent; null: it fits. */
function obstacles(plan: Plan, { again }: Reuse): (stage: StagePlan) => ObstacleText | null {
  const stages = new Map(plan.stages.map((stage) => [stage.id, stage]));
  const ownOf = ownStageOf(plan);
  const loops = plan.stages.flatMap(({ id, loop, work }) =>
    loop === undefined ? [] : [{ id, stages: partOf(work)?.stages ?? [] }],
  );
  const ownersIn = (stage: StagePlan): readonly string[] => ownersOf(stage, (id) => stages.get(id)!);
  return (stage) => {
    const owners = ownersIn(stage);
    const loop = loops.find((each) => [stage.id, ...owners].some((id) => each.stages.includes(id)));
    if (loop !== undefined) return { obstacle: 'runs-again', text: `loop ${loop.id} runs again from its first visit` };
    const because = again.get(ownOf(stage.id));
    if (because?.kind === 'differs')
      return { obstacle: 'differs', text: `its stage differs in ${because.keys.join(', ')}` };
    const around = [stage, ...owners.map((id) => stages.get(id)!)];
    // A stage with items waits for the stages of its own part, too: these edges are not before it.
    const before = around
      .flatMap(({ id, after }) => after.filter((edge) => !ownersIn(stages.get(edge.stage)!).includes(id)))
      .find((edge) => again.has(ownOf(edge.stage)));
    if (before === undefined) return null;
    return { obstacle: 'runs-again', text: `it waits for stage ${before.stage}, which runs again` };
  };
}

function explainNotSaved(plan: Plan, { id, work, scope }: StagePlan): ObstacleText {
  if (work.kind === 'skill') return { obstacle: 'never-saved', text: 'the work of step machines is not saved' };
  if (isService(work)) return { obstacle: 'never-saved', text: 'a service starts from its beginning' };
  const own = plan.scopes.find((each) => each.id === scope);
  const isOthers = own !== undefined && (isSharedScope(own) || own.sandbox.mounts.some(({ mode }) => mode === 'rw'));
  if (!isOthers) return { obstacle: 'unsaved', text: 'nothing of it was saved' };
  const text = `work is saved only if the agent has a VM of its own without writable mounts, and the VM of ${id} is another`;
  return { obstacle: 'shares-vm', text };
}
