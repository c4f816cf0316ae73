/**
 * What a plan may say and this build cannot carry out: it is checked with everything else, and refused before anything
 * starts, by the command line and by admission. Nothing else of a run has to know of it.
 */
import type { AgentSkill, AgentWork, Plan, SandboxNeeds, WorkPlan } from './plan.ts';
import { commandOf } from './work.ts';

/** Why an agent does not run that is not played. */
export const IS_AGENT = 'is an agent';

export interface UnsupportedPart {
  /** A stage that has it or whose VM needs it. */
  readonly stage: string;
  /** What the stage is or needs: `is an agent`. */
  readonly reason: string;
}

/**
 * In the plan's order; empty for a plan that can run.
 * @param images  `read` where whoever asks goes on to make disks of the images that the plan names
 */
export function unsupportedParts(
  { stages, scopes }: Plan,
  images: 'read' | 'unread' = 'unread',
): readonly UnsupportedPart[] {
  const scopeById = new Map(scopes.map((scope) => [scope.id, scope]));
  return stages.flatMap(({ id, scope, work, workspace }) => {
    const held = scope === null ? undefined : scopeById.get(scope);
    // Said once for a VM that several stages share.
    const { network, image, ...needs } =
      held?.stages[0] === id && held.sandbox.mode !== 'mock' ? (held.sandbox.needs ?? {}) : {};
    // An agent and a terminal have it anyway: what they are says enough.
    const asked = {
      ...needs,
      ...(commandOf(work) === null ? {} : { network }),
      ...(images === 'read' ? {} : { image }),
    };
    const hasWorkspace = workspace === undefined ? [] : ['has a `workspace`'];
    return [...ofWork(work), ...hasWorkspace, ...needsOf(asked)].map((reason) => ({ stage: id, reason }));
  });
}

/** On one line, of any number of parts. */
export function describeUnsupported(parts: readonly UnsupportedPart[]): string {
  const shown = parts.slice(0, 8).map(({ stage, reason }) => `stage ${stage} ${reason}`);
  return `this build of Voidbox cannot run it: ${shown.join('; ')}${parts.length > 8 ? `; and ${parts.length - 8} more` : ''}`;
}

function ofWork(work: WorkPlan): readonly string[] {
  switch (work.kind) {
    case 'command':
      return work.service === true ? ['is a service (`mode: service`)'] : [];
    case 'approval':
    case 'wait':
    case 'mock':
    case 'part':
      return [];
    case 'agent':
      return ofAgent(work);
    case 'shell':
      return ['is a VM for a terminal (`kind: sandbox`)'];
  }
}

/** Of an agent that is played, what the mock agent cannot do either. */
function ofAgent({ mode, skills, messaging, played }: AgentWork): readonly string[] {
  if (played !== true) return [IS_AGENT];
  return [
    ...(mode === 'task' ? [] : [`is an agent with \`mode: ${mode}\``]),
    ...(messaging ? ['talks with other agents (`messaging`)'] : []),
    ...new Set(skills.flatMap(ofSkill)),
  ];
}

function ofSkill(skill: AgentSkill): readonly string[] {
  switch (skill.kind) {
    case 'agent':
    case 'inline':
    case 'cli':
    case 'mcp':
      return [];
    case 'server':
      return skill.env.some(({ value }) => value.kind === 'from-host')
        ? [`has an MCP server with variables of the host (${JSON.stringify(skill.command)})`]
        : [];
    case 'file':
      return ['has a skill `file:`, which only `voidbox run` reads: put its text into the plan'];
    case 'remote':
      return [`has the skill \`remote:${skill.repository}\``];
    case 'image':
      return [`has a skill of the image ${JSON.stringify(skill.image)}`];
  }
}

function needsOf({ network, image, guestImage, kernel, initramfs, snapshot }: SandboxNeeds): readonly string[] {
  return [
    ...(network === true ? ['needs the network (`network: true`)'] : []),
    ...(image === undefined
      ? []
      : [
          `has the image ${JSON.stringify(image)}, which only \`voidbox run\` reads: it puts the hash of a disk into the plan`,
        ]),
    ...[
      ['guest_image', guestImage],
      ['kernel', kernel],
      ['initramfs', initramfs],
      ['snapshot', snapshot],
    ].flatMap(([key, value]) => (value === undefined ? [] : [`needs the \`${key}\` ${JSON.stringify(value)}`])),
  ];
}
