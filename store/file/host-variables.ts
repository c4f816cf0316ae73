/** Host variables of a run, in a private file that is removed at the run's end. */
import { join } from 'node:path';
import type { HandedOver, HostVariables } from '../../activities/ports/host-variables.ts';
import { aText, valuesOf } from '../../domain/run/shape.ts';
import { createDamageError } from './damage.ts';
import { readJson, removeFile, writeJson } from './json-file.ts';
import { DurableFolders } from './layout.ts';
import { makeRunFolder } from './run-folder.ts';
import { listHalfFilesOf } from '../half-files.ts';
import { runDir } from '../state-folder.ts';

/** The key of a start among the values: a start replaces both at once. Names of variables contain no colon. */
const START_KEY = 'voidbox:start-key';

export function createFileHostVariables(stateDir: string, folders = new DurableFolders(stateDir)): HostVariables {
  return {
    async put(runId, variables, startKey) {
      await makeRunFolder(stateDir, folders, runId);
      const values = startKey === undefined ? variables : { ...variables, [START_KEY]: startKey };
      await writeJson(folders, hostVariablesPath(stateDir, runId), values);
    },
    get: async (runId) => readHostVariables(stateDir, runId).variables,
    read: async (runId) => readHostVariables(stateDir, runId),
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
export function readHostVariables(stateDir: string, runId: string): HandedOver {
  const path = hostVariablesPath(stateDir, runId);
  const value = readJson(path);
  if (value === null) return { variables: {}, startKey: null };
  const problem = valuesOf(aText)(value, 'variables');
  if (problem !== null) throw createDamageError(path, problem);
  const { [START_KEY]: startKey = null, ...variables } = value as Record<string, string>;
  return { variables, startKey };
}
