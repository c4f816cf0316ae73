import { Ajv, type ValidateFunction } from 'ajv';

/** Judges as an editor does: by a schema of draft 7, with the keyword that editors know beyond it. All errors are kept. */
export function compileEditorSchema(schema: object): ValidateFunction {
  const ajv = new Ajv({
    strict: true,
    allErrors: true,
    allowUnionTypes: true,
    strictRequired: false,
    strictTypes: false,
  });
  return ajv.addVocabulary(['patternErrorMessage']).compile(schema);
}
