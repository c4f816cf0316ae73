/** Refuses a retry whose earlier run has lost its uploads, before anything is started. */
import { existsSync } from 'node:fs';
import type { Plan } from '../../domain/plan/plan.ts';
import { skillsOf } from '../../domain/plan/work.ts';
import { runsDir } from '../../store/state-folder.ts';
import { formatRunId, renderCommand } from '../runs/run-id.ts';
import { AppError } from '../app-error.ts';

/** @throws AppError `cli/mount-missing` */
export function refuseLostUploads({ scopes, stages }: Plan, stateDir: string, earlier: string): void {
  const paths = [
    ...scopes.flatMap(({ sandbox }) => sandbox.mounts.map(({ source }) => source.path)),
    ...stages.flatMap(({ workspace }) => (workspace?.from.kind === 'folder' ? [workspace.from.source.path] : [])),
    ...stages.flatMap(({ work }) =>
      skillsOf(work).flatMap((skill) => (skill.kind === 'file' ? [skill.source.path] : [])),
    ),
  ];
  const isUpload = (path: string): boolean =>
    path.startsWith(`${runsDir(stateDir)}/`) && path.slice(runsDir(stateDir).length + 1).split('/')[1] === 'uploads';
  if (!paths.some((path) => isUpload(path) && !existsSync(path))) return;
  throw new AppError(
    'usage',
    'cli/mount-missing',
    `the uploads that run ${formatRunId(earlier)} used are deleted: a prune has removed the run that they belong to`,
    `Send the folders again with the spec, as a new run or as a fork: ${renderCommand('fork', earlier, { names: 'FILE' })}`,
  );
}
