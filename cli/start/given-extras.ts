/** The pieces that `--with` names: those that only some runs need. */
import type { OptionalPieceName } from '../../setup/pieces/piece.ts';
import { isOptionalPiece, OPTIONAL_PIECE_NAMES } from '../../setup/pieces/pieces.ts';
import { createUsageError } from '../../app/app-error.ts';

export const WITH_HELP = `also set up pieces that only some runs need: ${OPTIONAL_PIECE_NAMES.join(', ')}`;

/** @throws AppError for a name that no optional piece has */
export function parseExtras(names: readonly string[] | undefined): readonly OptionalPieceName[] {
  return [...new Set(names)].map((name) => {
    if (isOptionalPiece(name)) return name;
    throw createUsageError(`--with ${name}: there is no such piece`, `Use one of ${OPTIONAL_PIECE_NAMES.join(', ')}.`);
  });
}
