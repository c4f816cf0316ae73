/**
 * Renders the progress and the result of `apply`. The guest or the repository chose the names, so all of them are
 * sanitized.
 */
import { quoteArgument } from '../../../domain/security/typed-argument.ts';
import { sanitizeLine } from '../../../domain/security/sanitize.ts';
import type { AppliedChanges, ApplyNotice } from '../../../app/runs/apply-changes.ts';
import { AppError } from '../../../app/app-error.ts';
import { type BuildProduct, isInProduct } from '../../../git/build-products.ts';
import type { ChangedFile } from '../../../git/changed-files.ts';
import type { Conflict } from '../../../git/apply-changes.ts';
import type { Recovery } from '../../../git/unfinished-apply.ts';
import { renderBuildProducts } from '../skills/build-products.ts';
import type { Style } from '../text/style.ts';
import { countOf, renderChangedFiles } from './changed-files.ts';

export function renderApplyNotice(notice: ApplyNotice, style: Style): string {
  switch (notice.kind) {
    case 'opened': {
      const { left, top, files, commits, products } = notice;
      const partial = left.isPartial ? ' (partial: it did not succeed)' : '';
      return `stage ${sanitizeLine(left.stage)}${partial}: ${countOf(files.length, 'file')}, ${countOf(commits, 'commit')}, for ${sanitizeLine(top)}\n${renderFiles(files, products, style)}`;
    }
    case 'waiting':
      return 'waiting for another `voidbox apply`\n';
    case 'unfinished':
      return 'another `voidbox apply` runs here, or was killed. If it was killed, the next `apply` without --check first restores the files that it had written\n';
    case 'recovered':
      return renderRecovered(notice.folder, notice.recovered);
  }
}

/** Products of builds follow the files that people wrote, folder by folder. */
function renderFiles(files: readonly ChangedFile[], products: readonly BuildProduct[], style: Style): string {
  const paths = new Set(products.map(({ path }) => path));
  const written = files.filter((file) => !isInProduct(file, paths));
  return `${renderChangedFiles(written, style)}${renderBuildProducts(products, style)}`;
}

function renderRecovered(folder: string, { isWhole, kept, putBack, changed }: Recovery): string {
  const where = sanitizeLine(folder);
  const files = kept === null ? '' : `; files that were there before are in ${sanitizeLine(kept)}`;
  if (isWhole) return `an earlier \`voidbox apply\` to ${where} was killed after it had written all files${files}\n`;
  const lines = changed.map(({ name, before }) => {
    const path = sanitizeLine(name.toString());
    return before === null
      ? `  ${path} stays: it did not exist before, and has changed since\n`
      : `  ${path} stays: it has changed since, or is incomplete; its earlier version is at ${sanitizeLine(before.toString())}\n`;
  });
  return `an earlier \`voidbox apply\` to ${where} was killed while it wrote: ${countOf(putBack, 'file')} put back\n${lines.join('')}`;
}

/** The outcome of a result without conflicts. */
export function renderApplied({ outcome, repository, branch, base }: AppliedChanges): string {
  const where = sanitizeLine(repository);
  const words: Readonly<Record<AppliedChanges['outcome'], string>> = {
    nothing: 'nothing has changed',
    branch: `branch ${branch ?? ''} in ${where}: git log ${base.slice(0, 12)}..${branch ?? ''}`,
    already: branch === null ? `${where} already has it` : `branch ${branch} already exists`,
    applies: `it applies to ${where}`,
    applied: `applied to ${where}; nothing is staged or committed`,
    conflicts: '',
    'conflict-markers': '',
  };
  return `${words[outcome]}\n`;
}

/** @param remedy  of conflicts without a merge */
export function describeConflicts(applied: AppliedChanges, remedy: string): AppError {
  const lines = applied.conflicts.map(renderConflict);
  const where = sanitizeLine(applied.repository);
  const refused = (text: string, help: string | null): AppError =>
    new AppError('failed', 'cli/apply-conflicts', `${text}:\n${lines.join('\n')}`, help);
  if (applied.outcome !== 'conflict-markers')
    return refused(`it does not apply to ${where}, and nothing was changed`, remedy);
  const files = countOf(lines.length, 'file');
  if (applied.before === null)
    return refused(`a merge with ${where} has conflicts in ${files}, and nothing was changed`, null);
  return refused(
    `merged into ${where}, with conflicts in ${files}; nothing is staged or committed`,
    `Edit the files between <<<<<<< and >>>>>>>. Files that were there before are in ${sanitizeLine(applied.before)}; to put them back: cp -a ${quoteArgument(`${applied.before}/.`)} ${quoteArgument(`${applied.repository}/`)}`,
  );
}

function renderConflict({ path, problem }: Conflict): string {
  return `  ${path === null ? '' : `${renderName(path)}: `}${sanitizeLine(problem)}`;
}

/** Quotes a name whose characters could be mistaken for the words after it. */
function renderName(path: string): string {
  return sanitizeLine(/[:"\p{C}]/u.test(path) ? JSON.stringify(path) : path);
}
