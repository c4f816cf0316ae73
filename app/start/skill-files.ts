/** Documents of this host that a plan's agents get. With your own server the worker's host decides. */
import { stat } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import type { AgentSkill, Plan, StagePlan } from '../../domain/plan/plan.ts';
import { skillsOf } from '../../domain/plan/work.ts';
import { FileRefusal, readFileWithin } from '../../files/open-file.ts';
import { baseDirHint, findFromCwd } from './base-dir.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { type MountPlace, placeOfPath } from './load-spec.ts';
import { listSpecRoots } from './spec-roots.ts';
import { quoteArgument } from '../../domain/security/typed-argument.ts';

export interface MissingAgentSkill {
  /** The first stage that has it. */
  readonly stage: string;
  /** As in the plan: absolute. */
  readonly path: string;
  /** The file at the same path from the working directory, which is not used; null: there is no such file. */
  readonly beside: string | null;
  /** The place of the file, outside of the folders that a spec may name; null: the file is missing. */
  readonly elsewhere: string | null;
}

export interface AgentSkillPlaces {
  /** The spec's folder; its relative paths start there. */
  readonly baseDir: string;
  /** Folders that the user allows for the command; absolute, links followed. */
  readonly allow: readonly string[];
}

type Here = Pick<Machine, 'env' | 'cwd' | 'confinedTo'>;

/** In the plan's order, each path once. */
export async function findMissingAgentSkills(
  plan: Plan,
  places: AgentSkillPlaces,
  here: Here,
): Promise<readonly MissingAgentSkill[]> {
  const stages = new Map<string, string>();
  for (const { id, work } of plan.stages)
    for (const skill of skillsOf(work))
      if (skill.kind === 'file' && !stages.has(skill.source.path)) stages.set(skill.source.path, id);
  const missing: MissingAgentSkill[] = [];
  const roots = listSpecRoots(places.baseDir, places.allow, here);
  for (const [path, stage] of stages) {
    const refusal = findReadRefusal(path, roots);
    if (refusal === null) continue;
    if (refusal.reason === 'outside') {
      missing.push({ stage, path, beside: null, elsewhere: refusal.leadsTo });
      continue;
    }
    const beside = findFromCwd(path, places.baseDir, here.cwd);
    missing.push({ stage, path, beside: beside !== null && (await isFile(beside)) ? beside : null, elsewhere: null });
  }
  return missing;
}

/** Null: a file that a spec may name. Its size and text are judged when it is read. */
function findReadRefusal(path: string, roots: readonly string[]): FileRefusal | null {
  try {
    readFileWithin(path, { roots, mostBytes: SKILL_BYTES });
    return null;
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    return error.reason === 'too-large' || error.reason === 'changed' ? null : error;
  }
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFile() === true;
}

export function codeOfMissing({ elsewhere }: MissingAgentSkill): 'cli/skill-missing' | 'cli/skill-refused' {
  return elsewhere === null ? 'cli/skill-missing' : 'cli/skill-refused';
}

export function describeMissingAgentSkill({ stage, path, beside, elsewhere }: MissingAgentSkill): string {
  if (elsewhere !== null) {
    const leads = elsewhere === path ? '' : `, which leads to ${elsewhere},`;
    return `the agent skill ${path} of stage ${stage}${leads} is neither below the spec's folder nor allowed on this host`;
  }
  const where = beside === null ? '' : `; it is only below the working directory: ${beside}`;
  return `the agent skill ${path} of stage ${stage} is not a file of this machine${where}`;
}

export function suggestSkillFix({ beside, elsewhere }: MissingAgentSkill, baseDir: string, cwd: string): string {
  if (elsewhere !== null)
    return `Move it below the spec's folder, ${baseDir}, or allow its folder: voidbox run FILE --allow-mounts ${quoteArgument(dirname(elsewhere))}`;
  const start = `relative paths start from the spec's folder, ${baseDir}`;
  return beside === null ? `Create it, or correct the path; ${start}` : `Move it there, or ${baseDirHint(cwd)}`;
}

/** The limit for the UTF-8 of one document, because the plan contains it. */
const SKILL_BYTES = 128 * 1024;

/**
 * Returns the plan with the text of each document of this machine, so that the worker reads no document. The run may be
 * on another host, and a plan must not make that host read its own files.
 * @throws AppError `cli/skill-missing`, `cli/skill-refused`
 */
export async function withAgentSkillFiles(plan: Plan, places: AgentSkillPlaces, here: Here): Promise<Plan> {
  const roots = listSpecRoots(places.baseDir, places.allow, here);
  const stages = plan.stages.map((stage): StagePlan => {
    const { work } = stage;
    if (work.kind !== 'agent' && work.kind !== 'skill') return stage;
    if (!work.skills.some(({ kind }) => kind === 'file')) return stage;
    return { ...stage, work: { ...work, skills: work.skills.map((skill) => inlineSkill(skill, roots)) } };
  });
  return { ...plan, stages };
}

function inlineSkill(skill: AgentSkill, roots: readonly string[]): AgentSkill {
  if (skill.kind !== 'file' || skill.source.kind !== 'host') return skill;
  const { path } = skill.source;
  try {
    const bytes = readFileWithin(path, { roots, mostBytes: SKILL_BYTES });
    const name = basename(path).replace(/\.[^.]*$/, '');
    return { kind: 'inline', name, content: documentIn(bytes, path) };
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    // A missing file was reported before, unless the worker's host may have it.
    if (error.reason === 'missing' || error.reason === 'denied') return skill;
    throw refusalOfSkill(path, error);
  }
}

function refusalOfSkill(path: string, { reason, message }: FileRefusal): AppError {
  if (reason === 'outside')
    return new AppError(
      'usage',
      'cli/skill-refused',
      `the agent skill ${path} is neither below the spec's folder nor allowed on this host`,
      'Move it below the folder of the spec, or allow its folder: voidbox run FILE --allow-mounts FOLDER',
    );
  return reason === 'too-large'
    ? new AppError(
        'usage',
        'cli/skill-missing',
        `the agent skill ${path} has more than ${SKILL_BYTES / 1024} KiB, which is too much for the plan`,
        'Shorten it, or mount the folder that contains it',
      )
    : new AppError(
        'usage',
        'cli/skill-missing',
        `the agent skill ${path} cannot be read: ${message}`,
        'Correct the path; an agent skill is a regular file',
      );
}

/**
 * Applies the rules for fetched documents.
 * @throws AppError `cli/skill-missing` for bytes that are not text, because a plan cannot contain them
 */
function documentIn(bytes: Buffer, path: string): string {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    if (text.trim() !== '' && !text.includes('\0')) return text;
  } catch {
    // The error below reports it.
  }
  throw new AppError(
    'usage',
    'cli/skill-missing',
    `the agent skill ${path} is empty or is not UTF-8 text`,
    'Name the document of the agent skill, such as its SKILL.md',
  );
}

/** @throws AppError `cli/skill-missing`, `cli/skill-refused` */
export async function refuseMissingAgentSkills(
  plan: Plan,
  places: AgentSkillPlaces,
  named: ReadonlyMap<string, MountPlace>,
  here: Here,
): Promise<void> {
  const { env, cwd } = here;
  // With your own server, the worker may have files that are missing here. This host sends the files that it has.
  const all = await findMissingAgentSkills(plan, places, here);
  const first = all.find(({ elsewhere }) => elsewhere !== null || !env.temporalConfigured);
  if (first !== undefined)
    throw new AppError(
      'usage',
      codeOfMissing(first),
      `${placeOfPath(named, first.path)}${describeMissingAgentSkill(first)}`,
      suggestSkillFix(first, places.baseDir, cwd),
    );
}
