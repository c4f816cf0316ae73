/**
 * Answers questions about a stage's work, one function per question. If a new kind may need an answer of its own, the
 * function has a case for every kind. A function that returns the work of one kind compares.
 */
import { formatDurationMs } from '../units/duration.ts';
import type {
  AgentSkill,
  AgentWork,
  ApprovalWork,
  CommandWork,
  EdgePlan,
  MockWork,
  StepMachineWork,
  StagePlan,
  TextPlace,
  WaitWork,
  WorkPlan,
  PartWork,
} from './plan.ts';

/** How the run machine does the work: it runs an activity, asks people and waits for the answer, or only waits. */
export type WorkMode = 'run' | 'ask' | 'wait';

export function doingOf(work: WorkPlan): WorkMode {
  switch (work.kind) {
    case 'approval':
      return 'ask';
    case 'wait':
      return 'wait';
    case 'command':
    case 'part':
    case 'agent':
    case 'skill':
    case 'shell':
    case 'mock':
      return 'run';
  }
}

/** Whether the work runs in a VM, so that its stage has a scope. */
export function needsVm(work: WorkPlan): boolean {
  switch (work.kind) {
    case 'approval':
    case 'wait':
    case 'mock':
    case 'part':
      return false;
    case 'command':
    case 'agent':
    case 'skill':
    case 'shell':
      return true;
  }
}

/** Returns the stages whose output the work itself reads, without those of the stage's `input` and `inputs`. */
export function listOutputsReadBy(work: WorkPlan): readonly string[] {
  switch (work.kind) {
    case 'command':
      return work.stdin.kind === 'stage-output' ? [work.stdin.stage] : [];
    case 'part':
      return work.output.kind === 'stage' ? [work.output.stage] : work.output.of.map(({ stage }) => stage);
    case 'approval':
    case 'wait':
    case 'agent':
    case 'skill':
    case 'shell':
    case 'mock':
      return [];
  }
}

/** Whether the work has a text in this place. */
export function hasText(work: WorkPlan, place: TextPlace): boolean {
  switch (place.kind) {
    case 'arg':
      return place.index < (commandOf(work)?.args.length ?? 0);
    case 'env':
      return isEnvironment(work, place.name);
    case 'message':
      return work.kind === 'approval';
    case 'prompt':
      return work.kind === 'agent';
    case 'until':
      return work.kind === 'wait' && work.until !== undefined;
    case 'param':
      return work.kind === 'skill' && typeof work.params[place.name] === 'string';
  }
}

function isEnvironment(work: WorkPlan, variable: string): boolean {
  const takesTexts = work.kind === 'command' || work.kind === 'agent' || work.kind === 'skill';
  return takesTexts && work.env.some(({ name }) => name === variable);
}

/** Describes the work for people: the command line, the question or the prompt. */
export function describeWork(work: WorkPlan): string {
  switch (work.kind) {
    case 'command':
      return scriptIn(work) ?? [work.program, ...work.args].join(' ');
    case 'approval':
      return `asks: ${work.message}`;
    case 'wait':
      return describeWait(work);
    case 'part':
      return `ends the part ${work.source}`;
    case 'agent':
      return `agent: ${work.prompt.trim()}`;
    case 'skill':
      return `skill: ${work.source.path}`;
    case 'shell':
      return 'a terminal';
    case 'mock':
      return `mocked: exit code ${work.exitCode}`;
  }
}

/** Returns the text of a command that runs a script, as `run:` with a text compiles to; null for another command. */
function scriptIn({ program, args }: CommandWork): string | null {
  const [errexit, isText, script] = args;
  return program === 'sh' && args.length === 3 && errexit === '-e' && isText === '-c' ? script!.trim() : null;
}

/** Describes the work of a stage, or its loop, for people. */
export function describeStageWork({ work, loop }: Pick<StagePlan, 'work' | 'loop'>): string {
  return loop === undefined ? describeWork(work) : `ends the loop once ${loop.until.source}`;
}

/** Returns the command that runs first in the stage's VM; null for other work. */
export function commandOf(work: WorkPlan): CommandWork | null {
  return work.kind === 'command' ? work : null;
}

/** Whether the work runs until its run is cancelled, and publishes its output while it runs. */
export function isService(work: WorkPlan): boolean {
  switch (work.kind) {
    case 'command':
      return work.service === true;
    case 'agent':
      return work.mode === 'service';
    case 'approval':
    case 'wait':
    case 'part':
    case 'skill':
    case 'shell':
    case 'mock':
      return false;
  }
}

/** The question to people; null for other work. */
export function approvalOf(work: WorkPlan): ApprovalWork | null {
  return work.kind === 'approval' ? work : null;
}

/** The mock of a mocked stage; null for other work. */
export function mockOf(work: WorkPlan): MockWork | null {
  return work.kind === 'mock' ? work : null;
}

/** The agent of the stage; null for other work. */
export function agentOf(work: WorkPlan): AgentWork | null {
  return work.kind === 'agent' ? work : null;
}

/** The name that an agent's stream has in the list of artifacts. */
export const TRANSCRIPT = 'transcript.jsonl';

/** The work for which an agent runs in the stage's VM: an agent or a step machine; null for other work. */
export function answeringOf(work: WorkPlan): AgentWork | StepMachineWork | null {
  return work.kind === 'agent' || work.kind === 'skill' ? work : null;
}

/** The step machine of the stage; null for other work. */
export function skillOf(work: WorkPlan): StepMachineWork | null {
  return work.kind === 'skill' ? work : null;
}

/** The agent skills of the stage; empty if it has no agent. */
export function skillsOf(work: WorkPlan): readonly AgentSkill[] {
  return work.kind === 'agent' || work.kind === 'skill' ? work.skills : [];
}

/** The wait of the stage; null for other work. */
export function waitOf(work: WorkPlan): WaitWork | null {
  return work.kind === 'wait' ? work : null;
}

/** The part that the stage ends; null for other work. */
export function partOf(work: WorkPlan): PartWork | null {
  return work.kind === 'part' ? work : null;
}

function describeWait({ forMs, untilMs, until }: WaitWork): string {
  if (until !== undefined) return `waits until ${until}`;
  return untilMs === null
    ? `waits for ${formatDurationMs(forMs ?? 0)}`
    : `waits until ${new Date(untilMs).toISOString()}`;
}

export function listEdgesOnSuccess(stages: readonly string[]): readonly EdgePlan[] {
  return stages.map((stage) => ({ stage, on: 'success' }));
}

/** Returns the stages that have an edge to this one, whatever the edge's condition. */
export function listStagesBefore({ after }: Pick<StagePlan, 'after'>): readonly string[] {
  return after.map(({ stage }) => stage);
}
