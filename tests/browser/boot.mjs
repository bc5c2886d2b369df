// Pyodide with our wheel and tests/support in it, ready to run one Python source after the other.
//
// The same in node and in a page; what differs (where the files come from) is handed in.

const EVALUATE = `
import json, sys, traceback
from pyodide.code import eval_code_async

sys.path.insert(0, "/tests")

async def evaluate(source):
    try:
        return json.dumps({"value": await eval_code_async(source, {"__name__": "__main__"})})
    except BaseException:
        return json.dumps({"error": traceback.format_exc()})

evaluate
`;

export async function boot(loadPyodide, options, wheel, support) {
  const say = (line) => console.error(line); // node speaks JSON on its standard output
  const python = await loadPyodide({ ...options, stdout: say, stderr: say });
  python.unpackArchive(wheel, "wheel");
  python.unpackArchive(support, "zip", { extractDir: "/tests" });
  return python.runPython(EVALUATE);
}
