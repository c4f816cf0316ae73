/** The workflow bundle of server tests, made from the sources once in each run of vitest: webpack takes seconds of CPU. */
import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflows, type WorkflowBundle } from '../../../workers/bundle.ts';

/** The variable that names the folder of this run of vitest; it is not set outside of vitest. */
export const BUNDLE_FOLDER = 'TEST_WORKFLOW_BUNDLE_FOLDER';
const workflowsPath = fileURLToPath(new URL('../../../workflows/index.ts', import.meta.url));

/** Files that start at once may bundle twice; each then finds a whole file. */
export async function testBundle(): Promise<WorkflowBundle> {
  const folder = process.env[BUNDLE_FOLDER];
  if (folder === undefined) return { code: await bundleWorkflows(workflowsPath) };
  const codePath = join(folder, 'workflow-bundle.js');
  if (!existsSync(codePath)) {
    const temporary = `${codePath}.${process.pid}`;
    writeFileSync(temporary, await bundleWorkflows(workflowsPath));
    renameSync(temporary, codePath);
  }
  return { codePath };
}
