/** Documents of the host that a plan's agents get, as this machine has them. On your own server the worker's host decides. */
import { constants } from 'node:fs';
import { open, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import { allowedMounts } from '../client/embedded/allowed-mounts.ts';
import type { AgentSkill, Plan, StagePlan } from '../domain/plan/plan.ts';
import { skillsOf } from '../domain/plan/work.ts';
import { contains } from '../domain/spec/paths.ts';
import { CliError } from './cli-error.ts';
import type { CliContext } from './context.ts';
import { EXIT } from './exit-code.ts';
import { type MountPlace, placeOfPath } from './load-spec.ts';
import { typedArgument } from './typed-argument.ts';

export interface MissingSkill {
  /** The first stage that has it. */
  readonly stage: string;
  /** As the plan has it: absolute. */
  readonly path: string;
  /** The file that lies there from the working directory, and is not taken; null: none does. */
  readonly beside: string | null;
  /** Where it is, outside of what a spec may name; null: it is missing. */
  readonly elsewhere: string | null;
}

export interface SkillPlaces {
  /** Of the spec: its relative paths start there. */
  readonly baseDir: string;
  /** Folders that the command was told to allow; absolute, links followed. */
  readonly allow: readonly string[];
}

type Here = Pick<CliContext, 'env' | 'cwd'>;

/** In the plan's order, each path once. */
export async function missingSkills(
  plan: Plan,
  places: SkillPlaces,
  { env, cwd }: Here,
): Promise<readonly MissingSkill[]> {
  const stages = new Map<string, string>();
  for (const { id, work } of plan.stages)
    for (const skill of skillsOf(work))
      if (skill.kind === 'file' && !stages.has(skill.source.path)) stages.set(skill.source.path, id);
  const missing: MissingSkill[] = [];
  for (const [path, stage] of stages) {
    if (await isFile(path)) {
      const real = await realpath(path);
      if (!(await mayRead(real, places, env.stateDir))) missing.push({ stage, path, beside: null, elsewhere: real });
      continue;
    }
    const beside = join(cwd, relative(places.baseDir, path));
    missing.push({ stage, path, beside: (await isFile(beside)) ? beside : null, elsewhere: null });
  }
  return missing;
}

/** What a spec names may be a stranger's word: a document goes into the plan, the server's history and a guest. */
async function mayRead(real: string, { baseDir, allow }: SkillPlaces, stateDir: string): Promise<boolean> {
  for (const root of [baseDir, ...allow, ...allowedMounts(stateDir)]) {
    const folder = await realpath(root).catch(() => null);
    if (folder !== null && contains(folder, real)) return true;
  }
  return false;
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFile() === true;
}

export function codeOfMissing({ elsewhere }: MissingSkill): 'cli/skill-missing' | 'cli/skill-refused' {
  return elsewhere === null ? 'cli/skill-missing' : 'cli/skill-refused';
}

export function describeMissingSkill({ stage, path, beside, elsewhere }: MissingSkill): string {
  if (elsewhere !== null) {
    const leads = elsewhere === path ? '' : `, which leads to ${elsewhere},`;
    return `the skill ${path} of stage ${stage}${leads} is neither below the spec's folder nor allowed on this host`;
  }
  const where = beside === null ? '' : `; it lies only below the working directory: ${beside}`;
  return `the skill ${path} of stage ${stage} is not a file of this machine${where}`;
}

export function missingSkillRemedy({ beside, elsewhere }: MissingSkill, baseDir: string): string {
  if (elsewhere !== null)
    return `Move it below the spec's folder, ${baseDir}, or allow its folder: voidbox run FILE --allow-mounts ${typedArgument(dirname(elsewhere))}`;
  const start = `a relative path starts at the spec's folder, ${baseDir}`;
  return beside === null ? `Create it, or correct the path; ${start}` : `Move it, or correct the path: ${start}`;
}

/** UTF-8 of one document, which travels within the plan. */
const SKILL_BYTES = 128 * 1024;

/**
 * The plan with the text of each document of this machine in it, so that the worker reads none: the run's host may be another one,
 * and a plan must not have it read files of its own.
 * @throws CliError `cli/skill-missing`, `cli/skill-refused`
 */
export async function withSkillFiles(plan: Plan, places: SkillPlaces, { env }: Here): Promise<Plan> {
  const inline = (skill: AgentSkill): Promise<AgentSkill> =>
    inlined(skill, (real) => mayRead(real, places, env.stateDir));
  const stages = await Promise.all(
    plan.stages.map(async (stage): Promise<StagePlan> => {
      const { work } = stage;
      if (work.kind !== 'agent' && work.kind !== 'skill') return stage;
      if (!work.skills.some(({ kind }) => kind === 'file')) return stage;
      return { ...stage, work: { ...work, skills: await Promise.all(work.skills.map(inline)) } };
    }),
  );
  return { ...plan, stages };
}

async function inlined(skill: AgentSkill, isAllowed: (real: string) => Promise<boolean>): Promise<AgentSkill> {
  if (skill.kind !== 'file' || skill.source.kind !== 'host') return skill;
  const { path } = skill.source;
  const real = await realpath(path).catch(() => null);
  // A pipe would be waited for, and a link in its place since would lead elsewhere.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;
  const handle = real === null ? null : await open(real, flags).catch(() => null);
  // One that is not there was reported before this, where it has to be there.
  if (real === null || handle === null) return skill;
  try {
    if (!(await isAllowed(real)))
      throw new CliError(
        EXIT.usage,
        'cli/skill-refused',
        `the skill ${path} is neither below the spec's folder nor allowed on this host`,
        'Move it below the folder of the spec, or allow its folder: voidbox run FILE --allow-mounts FOLDER',
      );
    if (!(await handle.stat()).isFile())
      throw new CliError(EXIT.usage, 'cli/skill-missing', `the skill ${path} is not a file`, 'Correct the path');
    const bytes = Buffer.alloc(SKILL_BYTES + 1);
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0);
    if (bytesRead > SKILL_BYTES)
      throw new CliError(
        EXIT.usage,
        'cli/skill-missing',
        `the skill ${path} has more than ${SKILL_BYTES / 1024} KiB, and travels within the plan`,
        'Shorten it, or mount the folder that holds it',
      );
    const name = basename(path).replace(/\.[^.]*$/, '');
    return { kind: 'inline', name, content: documentIn(bytes.subarray(0, bytesRead), path) };
  } finally {
    await handle.close();
  }
}

/** As of one that is fetched. @throws CliError `cli/skill-missing` for what is no text: a plan holds none */
function documentIn(bytes: Buffer, path: string): string {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (text.trim() !== '' && !text.includes('\0')) return text;
  } catch {
    // Said below.
  }
  throw new CliError(
    EXIT.usage,
    'cli/skill-missing',
    `the skill ${path} is empty, or no UTF-8 text`,
    'Name the document of the skill, such as its SKILL.md',
  );
}

/** @throws CliError `cli/skill-missing`, `cli/skill-refused` */
export async function refuseMissingSkills(
  plan: Plan,
  places: SkillPlaces,
  named: ReadonlyMap<string, MountPlace>,
  { env, cwd }: Here,
): Promise<void> {
  // With your own server the worker may have what is missing here, and this host reads what it has itself.
  const all = await missingSkills(plan, places, { env, cwd });
  const first = all.find(({ elsewhere }) => elsewhere !== null || !env.temporalConfigured);
  if (first !== undefined)
    throw new CliError(
      EXIT.usage,
      codeOfMissing(first),
      `${placeOfPath(named, first.path)}${describeMissingSkill(first)}`,
      missingSkillRemedy(first, places.baseDir),
    );
}
