package drivers;

import java.util.HashMap;
import java.util.Map;

/** The steps in Hibernate's language, by their names; several statements of one step are parted by `;`. */
final class Statements {
    static final Map<String, String> ALL = new HashMap<>();

    private static final String PERSON = "select p.id, p.name, p.age, p.paid, p.born, p.note from Person p ";
    private static final String ID = "select p.id from Person p where ";
    private static final String NAMED = "select p.id, p.name from Person p where ";

    private Statements() {
    }

    static {
        read();
        combine();
        change();
        for (String column : "i l n f g t b d s z u y".split(" ")) {
            ALL.put("types/equal " + column, "select s.id from Sample s where s." + column + " = :p1 and s.id = :p2");
        }
        ALL.put("types/select", "select s.id, s.i, s.l, s.n, s.f, s.g, s.t, s.b, s.d, s.s, s.z, s.u, s.y from Sample s order by s.id");
        ALL.put("types/select lists", "select l.id, l.t, l.i from Lists l order by l.id");
        ALL.put("types/element", "select l.id, array_get(l.t, 1) from Lists l where array_contains(l.t, :p1)");
        ALL.put("ranges/overflow", "update Person p set p.age = p.age + :p1 where p.id = :p2");
        ALL.put("ranges/unchanged", "select p.age from Person p where p.id = :p1");
        ALL.put("transactions/clean", "delete from Person p where p.id > :p1");
        ALL.put("errors/failed", ID + "p.name = :p1");
        ALL.put("prepared/select", "select p.id, p.name, p.age from Person p where p.name = :p1 and p.id < :p2");
        ALL.put("prepared/update", "update Person p set p.age = :p1 where p.name = :p2; select p.age from Person p where p.name = :p2");
        ALL.put("large/select", "select b.id, b.t, b.y from Blob b where b.id = :p1");
        for (String name : new String[] {"timeout", "cancel"}) {
            ALL.put("cancelled/" + name, "select p.id, function('pg_sleep', 30) from Person p where p.name = :p1");
        }
    }

    private static void read() {
        ALL.put("read/all", PERSON + "order by p.id");
        ALL.put("read/equal", "select p.id, p.name, p.age from Person p where p.name = :p1 and p.note = :p2");
        ALL.put("read/equal quoted", NAMED + "p.name = :p1");
        ALL.put("read/equal number", ID + "p.age = :p1 and p.id > :p2");
        ALL.put("read/equal numeric", ID + "p.paid = :p1");
        ALL.put("read/equal date", ID + "p.born = :p1");
        ALL.put("read/in", ID + "p.name in (:p1, :p2, :p3) order by p.id");
        ALL.put("read/any", ID + "p.name in :p1 order by p.id");
        ALL.put("read/any number", ID + "p.age in :p1 order by p.id");
        ALL.put("read/between", ID + "p.born between :p1 and :p2 order by p.id");
        ALL.put("read/less", ID + "p.age < :p1 and p.paid >= :p2 order by p.id");
        ALL.put("read/like", ID + "p.name like :p1 order by p.id");
        ALL.put("read/like escaped", ID + "p.name like :p1 escape '\\'");
        ALL.put("read/starts with", ID + "p.name like :p1 || '%' escape '/' order by p.id");
        ALL.put("read/contains", ID + "p.name like concat('%', :p1, '%') escape '/'");
        ALL.put("read/ends with", ID + "p.name like :p1 escape '\\'");
        ALL.put("read/not like", ID + "p.name not like :p1 and p.id < :p2");
        ALL.put("read/ilike", ID + "p.name ilike :p1");
        ALL.put("read/function", ID + "lower(p.name) = :p1");
        ALL.put("read/exists", ID + "exists (select 1 from Pet q where q.owner = p.name and q.nick = :p1)");
        ALL.put("read/nothing", NAMED + "p.name = :p1");
    }

    private static void combine() {
        ALL.put("combine/join", "select p.id, p.name, q.nick, q.big from Person p join Pet q on q.owner = p.name where q.nick <> :p1 "
            + "order by p.id, q.id");
        ALL.put("combine/left join", "select p.id, q.nick from Person p left join Pet q on q.owner = p.name where p.id < :p1 "
            + "order by p.id, q.id");
        ALL.put("combine/aggregates", "select count(*), count(p.name), sum(p.age), min(p.name), max(p.born) from Person p where p.id <= :p1");
        ALL.put("combine/sum of numeric", "select sum(p.paid) from Person p where p.paid > :p1");
        ALL.put("combine/group", "select q.owner, count(*) from Pet q group by q.owner having count(*) > :p1");
        ALL.put("combine/group by plain", "select p.note, max(p.age) from Person p where p.note <> :p1 group by p.note order by p.note");
        ALL.put("combine/order", "select p.name from Person p order by p.name desc limit :p1 offset :p2");
        ALL.put("combine/order by number", "select p.id from Person p order by p.age, p.id limit 3");
        ALL.put("combine/distinct", "select distinct q.owner from Pet q where q.owner is not null order by q.owner");
        ALL.put("combine/union", "select p.name from Person p where p.id = :p1 union all select q.nick from Pet q where q.id = :p2");
        ALL.put("combine/cursor", NAMED + "p.name > :p1 order by p.id");
        ALL.put("combine/together", "select p.name, p.age from Person p where p.name = :p1");
    }

    private static void change() {
        ALL.put("change/update", "update Person p set p.name = :p1, p.note = :p2 where p.name = :p3");
        ALL.put("change/computed", "update Person p set p.age = p.age + :p1 where p.id = :p2; select p.age, p.name from Person p where p.id = :p2");
        ALL.put("change/created", NAMED + "p.name = :p1");
        ALL.put("change/case", "update Person p set p.age = case p.id when 3 then :p1 when 4 then :p2 end where p.id in (3, 4)");
        ALL.put("change/conflict", "insert into Person (id, name, age) values (:p1, :p2, :p3) on conflict (id) do update set name = "
            + "excluded.name; select p.name, p.age from Person p where p.id = :p1");
        ALL.put("change/conflict ignored", "insert into Person (id, name) values (:p1, :p2) on conflict do nothing");
        ALL.put("change/update many", "update Pet q set q.nick = :p1 where q.nick = :p2");
        ALL.put("change/delete", "select q.id, q.owner from Pet q where q.nick = :p1; delete from Pet q where q.nick = :p1");
        ALL.put("nulls/is null", PERSON + "where p.name is null");
        ALL.put("nulls/coalesce", "select coalesce(p.name, :p1) from Person p where p.id = :p2");
        ALL.put("nulls/to null", "update Person p set p.paid = null, p.note = :p1 where p.id = :p2; select p.paid from Person p where p.id = :p2");
        ALL.put("nulls/count", "select count(*), count(p.paid), count(p.name) from Person p");
        ALL.put("nulls/delete", "delete from Person p where p.name is null");
    }

    /** The statements of a step whose name is one of many alike. */
    static String of(Main.Step step) {
        String name = step.name();
        if (ALL.containsKey(name)) {
            return ALL.get(name);
        }
        if (name.startsWith("errors/refused")) {
            return ID + "p.name = function('textcat', :p1, :p2)";
        }
        return name.startsWith("transactions/") ? NAMED + "p.name like :p1 order by p.id" : ID + "p.name = :p1";
    }
}
