/**
 * Finds the parts of a valid plan that this build cannot run. The command line and admission check them with everything
 * else, and reject the plan before anything starts. No other code of a run needs to know these parts.
 */
import { CLI_NEEDS, cliOf } from '../agent/agent-cli.ts';
import { isCostKnown, isCostKnownByCall } from '../agent/budget.ts';
import type {
  AgentSkill,
  AgentWork,
  Plan,
  SandboxNeeds,
  SandboxPlan,
  StepMachineWork,
  WorkPlan,
} from '../plan/plan.ts';
import { answeringOf, commandOf } from '../plan/work.ts';
import { quote } from '../units/quote.ts';

const IS_AGENT = 'is an agent';
/** For a stage whose agent answers the prompts of a step machine. */
const HAS_AGENT = 'has an agent';

export interface UnsupportedPart {
  /** A stage that has the part, or whose VM needs it. */
  readonly stage: string;
  /** The part in words: `is an agent`. */
  readonly reason: string;
}

type ReadState = 'read' | 'unread';

/**
 * Returns the unsupported parts in the plan's order; empty for a plan that can run.
 * @param images  `read` if the caller makes disks of the images that the plan names
 * @param documents  `read` if the caller puts the texts of agent skills `file:` into the plan, as `run` does
 */
export function findUnsupportedParts(
  { stages, scopes, budget }: Plan,
  images: ReadState = 'unread',
  documents: ReadState = 'unread',
): readonly UnsupportedPart[] {
  const scopeById = new Map(scopes.map((scope) => [scope.id, scope]));
  return stages.flatMap(({ id, scope, work }) => {
    const held = scope === null ? undefined : scopeById.get(scope);
    // Report it once for a VM that several stages share.
    const { network, image, ...needs } =
      held?.stages[0] === id && held.sandbox.mode !== 'mock' ? (held.sandbox.needs ?? {}) : {};
    // An agent and a terminal always have the network, so report only that the stage is one.
    const asked = {
      ...needs,
      ...(commandOf(work) === null ? {} : { network }),
      ...(images === 'read' ? {} : { image }),
    };
    return [...checkWork(work, held?.sandbox, documents), ...checkRunBudget(work, budget), ...needsOf(asked)].map(
      (reason) => ({
        stage: id,
        reason,
      }),
    );
  });
}

/** Describes any number of parts on one line. */
export function describeUnsupported(parts: readonly UnsupportedPart[]): string {
  const shown = parts.slice(0, 8).map(({ stage, reason }) => `stage ${stage} ${reason}`);
  return `this build of Voidbox cannot run it: ${shown.join('; ')}${parts.length > 8 ? `; and ${parts.length - 8} more` : ''}`;
}

function checkWork(work: WorkPlan, sandbox: SandboxPlan | undefined, documents: ReadState): readonly string[] {
  switch (work.kind) {
    case 'command':
    case 'approval':
    case 'wait':
    case 'mock':
    case 'part':
      return [];
    case 'agent':
      return [
        ...(work.played === true ? [] : checkRealAgent(work, sandbox, IS_AGENT)),
        ...checkAnyAgent(work, documents),
      ];
    case 'skill':
      return [
        ...(work.played === true ? [] : checkRealAgent(work, sandbox, HAS_AGENT)),
        ...checkBudget(work, HAS_AGENT),
        ...checkSkills(work, documents),
      ];
    case 'shell':
      return ['is a VM for a terminal (`kind: sandbox`)'];
  }
}

function checkBudget(
  { llm, budget }: AgentWork | StepMachineWork,
  words: typeof IS_AGENT | typeof HAS_AGENT,
): readonly string[] {
  if (budget?.maxCostUsd === undefined || isCostKnown(llm)) return [];
  return [`${words} whose cost is not reported, and has a limit for it: give \`llm\` a \`price\``];
}

function checkRunBudget(work: WorkPlan, budget: Plan['budget']): readonly string[] {
  const agent = answeringOf(work);
  if (budget?.maxCostUsd === undefined || agent === null || isCostKnownByCall(agent.llm)) return [];
  return [`${HAS_AGENT} whose calls have no reported cost, and its run has a limit for it: give \`llm\` a \`price\``];
}

/** Checks requirements of a real agent, which the mock agent does not have. */
function checkRealAgent(
  work: AgentWork | StepMachineWork,
  sandbox: SandboxPlan | undefined,
  words: typeof IS_AGENT | typeof HAS_AGENT,
): readonly string[] {
  const cli = cliOf(work.llm);
  const { leastMemoryMib } = CLI_NEEDS[cli];
  const memoryMib = sandbox?.memoryMib ?? leastMemoryMib;
  return [
    ...(sandbox?.mode === 'mock' ? [`${words} in a VM that is simulated (\`mode: mock\`)`] : []),
    ...(memoryMib < leastMemoryMib
      ? [
          `${words} for whose command line ${memoryMib} MiB are too little: ${cli} needs \`memory_mb: ${leastMemoryMib}\``,
        ]
      : []),
    ...(work.llm?.credentialProxy === true ? [`${words} whose key stays on the host (\`credential_proxy\`)`] : []),
  ];
}

/** Checks features that the mock agent cannot run either. */
function checkAnyAgent(work: AgentWork, documents: ReadState): readonly string[] {
  const { mode, messaging } = work;
  return [
    ...(mode === 'interactive' ? ['is an agent with `mode: interactive`'] : []),
    ...checkBudget(work, IS_AGENT),
    ...(messaging ? ['talks with other agents (`messaging`)'] : []),
    ...checkSkills(work, documents),
  ];
}

function checkSkills({ skills }: AgentWork | StepMachineWork, documents: ReadState): readonly string[] {
  const unread = documents === 'read' ? skills.filter(({ kind }) => kind !== 'file') : skills;
  return [...new Set(unread.flatMap(checkSkill))];
}

function checkSkill(skill: AgentSkill): readonly string[] {
  switch (skill.kind) {
    case 'agent':
    case 'inline':
    case 'cli':
    case 'mcp':
    case 'server':
    case 'remote':
      return [];
    case 'file':
      return ['has an agent skill `file:`, which only `voidbox run` reads: put its text into the plan'];
    case 'image':
      return [`has an agent skill of the image ${quote(skill.image)}`];
  }
}

function needsOf({ network, image, guestImage, kernel, initramfs }: SandboxNeeds): readonly string[] {
  return [
    ...(network === true ? ['needs the network (`network: true`)'] : []),
    ...(image === undefined
      ? []
      : [`has the image ${quote(image)}, which only \`voidbox run\` reads: it puts the hash of a disk into the plan`]),
    ...[
      ['guest_image', guestImage],
      ['kernel', kernel],
      ['initramfs', initramfs],
    ].flatMap(([key, value]) => (value === undefined ? [] : [`needs the \`${key}\` ${quote(value)}`])),
  ];
}
