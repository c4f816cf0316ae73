/**
 * Deletes data of ended sessions from the state folder, and code that no session runs. Folders that another server's
 * sessions may need stay, and so do folders of unknown servers.
 */
import { readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type {
  SessionPruner,
  SessionUses,
  SkillPruneOptions,
  SkillPruneReport,
} from '../../activities/ports/session-stores.ts';
import { folderUse } from '../server-mark.ts';

const SESSIONS = 'sessions';
const SKILLS = 'skills';
const ASIDE = '.removed-';

export function createFileSessionPruner(stateDir: string): SessionPruner {
  return {
    hasAny: async () => hasSkillFiles(stateDir),
    prune: async (uses, options) => pruneSkills(stateDir, uses, options),
  };
}

/** True if there is anything to check: only then does the command ask the server. */
function hasSkillFiles(stateDir: string): boolean {
  return [SESSIONS, SKILLS].some((folder) => names(join(stateDir, folder)).length > 0);
}

export function pruneSkills(stateDir: string, uses: SessionUses, options: SkillPruneOptions): SkillPruneReport {
  const { serverId, open, codeHashes } = uses;
  const isUnused = (folder: string): boolean => {
    const use = folderUse(folder);
    if (use === null || options.nowMs - use.lastMs <= options.olderThanMs) return false;
    return use.servers.length > 0 && use.servers.every((server) => server === serverId);
  };
  const take = (kind: string, isKept: (name: string) => boolean): string[] => {
    const gone = names(join(stateDir, kind)).filter((name) => !isKept(name) && isUnused(join(stateDir, kind, name)));
    if (!options.dryRun) for (const name of gone) remove(join(stateDir, kind), name);
    return gone;
  };
  if (!options.dryRun) for (const kind of [SESSIONS, SKILLS]) removeLeftovers(join(stateDir, kind));
  return {
    sessions: take(SESSIONS, (name) => open.has(name)),
    skills: codeHashes === null ? [] : take(SKILLS, (name) => codeHashes.has(name)),
  };
}

/** Renames first, so that a reader finds the whole folder or nothing. */
function remove(folder: string, name: string): void {
  const aside = join(folder, `${ASIDE}${process.pid}-${name}`);
  renameSync(join(folder, name), aside);
  rmSync(aside, { recursive: true, force: true });
}

function removeLeftovers(folder: string): void {
  for (const name of names(folder, true))
    if (name.startsWith(ASIDE)) rmSync(join(folder, name), { recursive: true, force: true });
}

function names(folder: string, all = false): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => all || !name.startsWith('.'))
      .toSorted();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
