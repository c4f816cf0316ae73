import type { ErrorCodeInfo } from './code-info.ts';

/** Why the service cannot read the source of a trigger. `voidbox deployment show` prints them. Part of `ERROR_CODES`. */
export const SOURCE_CODES = {
  'source/unavailable': defineSourceCode(
    'The folder or the database of a trigger cannot be read. The service tries again, and nothing is lost.',
    'The message has the reason. Correct it: the service continues without a restart.',
  ),
  'source/not-allowed': defineSourceCode(
    'The operator of the service no longer allows the folder or the database of a trigger, or its secret names another one.',
    'The operator allows it on the machine of the service: `voidbox up --allow-watch FOLDER`, or `--allow-outbox HOST:PORT`.',
  ),
  'source/too-many-files': defineSourceCode(
    'The watched folder has more files or names than a scan looks at, so that some files start no run.',
    'Move files away that have started their run, or watch a folder with fewer files.',
  ),
  'source/bad-secret': defineSourceCode(
    'The secret of an outbox is absent, or is not an address that the service uses.',
    'Set it: voidbox secret set NAME --deployment DEPLOYMENT. The guide of outboxes shows the form of the address.',
  ),
  'source/bad-table': defineSourceCode(
    'The table of an outbox does not exist, lacks a column, or the role of the address lacks a privilege.',
    'Make it in the database of the application with the statements in the guide of outboxes.',
  ),
} as const satisfies Record<string, ErrorCodeInfo>;

export type SourceCode = keyof typeof SOURCE_CODES;

function defineSourceCode(
  summary: string,
  remedy: string,
): ErrorCodeInfo & { readonly kind: 'delivery'; readonly retry: 'never' } {
  return { kind: 'delivery', retry: 'never', summary, remedy };
}
