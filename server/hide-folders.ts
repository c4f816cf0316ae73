/** Messages for tokens: they do not show where the files of the owner are. */
import { createMapping } from '../domain/units/mapping.ts';
import type { Problem } from './problems.ts';

/** The folder of one start's uploads. The request names the paths that follow. */
const UPLOADS = /<state folder>\/runs\/[^/\s]{1,255}\/uploads\/[0-9a-f]{16}(\/|(?![\w.-]))/g;

export interface HiddenFolders {
  readonly stateDir: string;
  readonly cacheDir: string;
  /** The file with the keys of secrets; null: it is in the state folder. */
  readonly secretsKeyFile: string | null;
  /** The home of the owner; null: it is unknown. */
  readonly home: string | null;
}

/** Replaces the folders by their names, and removes the folder of the uploads from paths in it. */
export function hideFolders(problem: Problem, folders: HiddenFolders): Problem {
  const hide = (text: string): string => hideIn(text, folders);
  return {
    ...problem,
    detail: hide(problem.detail),
    remedy: problem.remedy === null ? null : hide(problem.remedy),
    ...(problem.diagnostics === undefined
      ? {}
      : {
          diagnostics: problem.diagnostics.map((each) => ({
            ...each,
            message: hide(each.message),
            remedy: hide(each.remedy),
            file: hide(each.file),
          })),
        }),
  };
}

/**
 * Replaces the state folder in the texts of a record, and in its keys, which may be paths. Other folders stay, because a
 * spec can name them.
 */
export function hideStateFolder(value: unknown, stateDir: string): unknown {
  if (typeof value === 'string')
    return value
      .replaceAll(stateDir, '<state folder>')
      .replaceAll(UPLOADS, (_path, slash: string) => (slash === '' ? 'the uploads' : ''));
  if (Array.isArray(value)) return value.map((each) => hideStateFolder(each, stateDir));
  if (typeof value !== 'object' || value === null) return value;
  return createMapping(
    Object.entries(value).map(([key, each]) => [
      hideStateFolder(key, stateDir) as string,
      hideStateFolder(each, stateDir),
    ]),
  );
}

function hideIn(text: string, { stateDir, cacheDir, secretsKeyFile, home }: HiddenFolders): string {
  // It may be in one of the folders.
  const withoutKeys = secretsKeyFile === null ? text : text.replaceAll(secretsKeyFile, '<file of keys>');
  const hidden = withoutKeys
    .replaceAll(stateDir, '<state folder>')
    .replaceAll(cacheDir, '<cache folder>')
    .replaceAll(UPLOADS, (_path, slash: string) => (slash === '' ? 'the uploads' : ''));
  // The root is no home that a message could reveal.
  return home === null || home.length < 2 ? hidden : hidden.replaceAll(home, '<home>');
}
