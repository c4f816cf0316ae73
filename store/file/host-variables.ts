/** Host variables of a run, in a private file that is removed at the run's end. */
import { join } from 'node:path';
import type { HostVariables } from '../../activities/ports/host-variables.ts';
import { aText, valuesOf } from '../../domain/run/shape.ts';
import { createDamageError } from './damage.ts';
import { readJson, removeFile, writeJson } from './json-file.ts';
import { DurableFolders } from './layout.ts';
import { makeRunFolder } from './run-folder.ts';
import { listHalfFilesOf } from '../half-files.ts';
import { runDir } from '../state-folder.ts';

export function createFileHostVariables(stateDir: string): HostVariables {
  const folders = new DurableFolders(stateDir);
  return {
    async put(runId, variables) {
      await makeRunFolder(stateDir, folders, runId);
      await writeJson(folders, hostVariablesPath(stateDir, runId), variables);
    },
    get: async (runId) => readHostVariables(stateDir, runId),
    async drop(runId) {
      const path = hostVariablesPath(stateDir, runId);
      // Half files have values, too.
      for (const each of [path, ...listHalfFilesOf(path)]) await removeFile(each);
    },
  };
}

function hostVariablesPath(stateDir: string, runId: string): string {
  return join(runDir(stateDir, runId), 'host-variables.json');
}

/** @throws CodedError `store/damaged` */
export function readHostVariables(stateDir: string, runId: string): Readonly<Record<string, string>> {
  const path = hostVariablesPath(stateDir, runId);
  const value = readJson(path);
  if (value === null) return {};
  const problem = valuesOf(aText)(value, 'variables');
  if (problem !== null) throw createDamageError(path, problem);
  return value as Record<string, string>;
}
