"""The words of the built-in corpus: nouns, places, compounds, adjectives, names, each German entry
with its one translation."""

# German, gender, plural, "weak" for Junge/Jungen, +feminine form : English (irregular plural) :
# kinds that verbs ask for.
NOUNS = """
Mann m Männer : man men : person stranger
Frau f Frauen : woman women : person stranger
Kind n Kinder : child children : person stranger
Junge m Jungen weak : boy : person stranger
Mädchen n Mädchen : girl : person stranger
Lehrer m Lehrer +Lehrerin : teacher : person stranger
Arzt m Ärzte +Ärztin : doctor : person stranger
Student m Studenten weak +Studentin : student : person stranger
Nachbar m Nachbarn weak +Nachbarin : neighbour : person near friend stranger
Kollege m Kollegen weak +Kollegin : colleague : person near stranger
Polizist m Polizisten weak +Polizistin : police_officer : person stranger
Verkäufer m Verkäufer +Verkäuferin : shop_assistant : person stranger
Gärtner m Gärtner +Gärtnerin : gardener : person stranger
Koch m Köche +Köchin : cook : person stranger
Freund m Freunde +Freundin : friend : person near friend stranger
Bruder m Brüder : brother : person near kin
Schwester f Schwestern : sister : person near kin
Vater m Väter : father : person near kin single
Mutter f Mütter : mother : person near kin single
Onkel m Onkel : uncle : person near kin
Tante f Tanten : aunt : person near kin
Großvater m Großväter : grandfather : person near kin single
Großmutter f Großmütter : grandmother : person near kin single
Sohn m Söhne : son : person near kin
Tochter f Töchter : daughter : person near kin
Gast m Gäste : guest : person stranger
Tourist m Touristen weak +Touristin : tourist : person stranger
Chef m Chefs +Chefin : boss : person near stranger
Künstler m Künstler +Künstlerin : artist : person stranger
Sänger m Sänger +Sängerin : singer : person stranger
Journalist m Journalisten weak +Journalistin : journalist : person stranger
Richter m Richter +Richterin : judge : person stranger
Hund m Hunde : dog : animal
Katze f Katzen : cat : animal
Pferd n Pferde : horse : animal
Vogel m Vögel : bird : animal
Hase m Hasen weak : rabbit : animal
Affe m Affen weak : monkey : animal wild
Löwe m Löwen weak : lion : animal wild
Schlange f Schlangen : snake : animal wild
Elefant m Elefanten weak : elephant : animal wild
Brot n Brote : bread : food mass
Käse m Käse : cheese : food mass
Fleisch n Fleische : meat : food mass
Reis m Reise : rice : food mass
Kuchen m Kuchen : cake : food baked
Apfel m Äpfel : apple : food
Orange f Orangen : orange : food
Ei n Eier : egg : food cooked
Kartoffel f Kartoffeln : potato potatoes : food cooked
Suppe f Suppen : soup : food cooked
Salat m Salate : salad : food
Wasser n Wasser : water : drink mass
Kaffee m Kaffees : coffee : drink mass
Tee m Tees : tea : drink mass
Milch f Milch : milk : drink mass
Wein m Weine : wine : drink mass
Saft m Säfte : juice : drink mass
Buch n Bücher : book : text carry gift pages
Brief m Briefe : letter : text message mail
Zeitung f Zeitungen : newspaper : text carry
Roman m Romane : novel : text written gift pages
Gedicht n Gedichte : poem : text written
Bericht m Berichte : report : text message written pages
Geschichte f Geschichten : story : text written told
Postkarte f Postkarten : postcard : text message mail
Film m Filme : film : watched
Bild n Bilder : picture : watched hung gift carry painted
Lied n Lieder : song : sung
Schlüssel m Schlüssel : key : carry lost
Uhr f Uhren : clock : hung machine
Lampe f Lampen : lamp : hung device stood gift
Spiegel m Spiegel : mirror : hung
Computer m Computer : computer : device machine
Radio n Radios : radio : device machine
Fernseher m Fernseher : television : device machine
Kamera f Kameras : camera : carry machine lost gift
Tasche f Taschen : bag : carry opened lost
Koffer m Koffer : suitcase : carry opened lost stood
Regenschirm m Regenschirme : umbrella : carry lost
Paket n Pakete : parcel : carry opened message
Geschenk n Geschenke : present : carry opened
Ring m Ringe : ring : lost gift carry
Flasche f Flaschen : bottle : carry stood opened
Teller m Teller : plate : stood washed
Glas n Gläser : glass : stood washed
Messer n Messer : knife knives : washed carry
Vase f Vasen : vase : stood gift
Gitarre f Gitarren : guitar : carry played single
Klavier n Klaviere : piano : played single
Geige f Geigen : violin : played carry single
Leiter f Leitern : ladder : carry needed
Decke f Decken : blanket : washed soft
Tisch m Tische : table : furniture top
Stuhl m Stühle : chair : furniture seat
Bett n Betten : bed : furniture top
Schrank m Schränke : cupboard : furniture
Sofa n Sofas : sofa : furniture seat
Tür f Türen : door : opened part
Fenster n Fenster : window : opened part
Schloss n Schlösser : lock : lock
Bank f Bänke : bench : bench
Hut m Hüte : hat : worn gift
Mantel m Mäntel : coat : worn
Kleid n Kleider : dress : worn
Hemd n Hemden : shirt : worn
Jacke f Jacken : jacket : worn
Pullover m Pullover : sweater : worn gift
Schuh m Schuhe : shoe : worn
Auto n Autos : car : vehicle machine drive
Zug m Züge : train : vehicle public boarded
Bus m Busse : bus : vehicle public boarded
Fahrrad n Fahrräder : bicycle : vehicle machine drive
Schiff n Schiffe : ship : vehicle public
Taxi n Taxis : taxi : vehicle public
Konzert n Konzerte : concert : event show joy
Fest n Feste : party : event joy
Prüfung f Prüfungen : exam : event exam
Hochzeit f Hochzeiten : wedding : event joy
Reise f Reisen : trip : trip joy
Sitzung f Sitzungen : meeting : event
Kurs m Kurse : course : event exam
Frage f Fragen : question : idea asked
Antwort f Antworten : answer : idea noted
Problem n Probleme : problem : idea task
Aufgabe f Aufgaben : task : idea task
Plan m Pläne : plan : idea thought told
Idee f Ideen : idea : idea thought
Adresse f Adressen : address : noted
Fehler m Fehler : mistake : slip
Geld n Gelder : money : money mass
"""

# Like NOUNS; the last column: German preposition at rest, its translation, German preposition of
# going there.
PLACES = """
Bahnhof m Bahnhöfe : station : building public_place : an at zu
Flughafen m Flughäfen : airport : building : an at zu
Krankenhaus n Krankenhäuser : hospital : building work rooms : in in in
Schule f Schulen : school : building work rooms : in at in
Universität f Universitäten : university : building work rooms : an at zu
Museum n Museen : museum : building work sight : in in in
Kirche f Kirchen : church : building sight : in in in
Hotel n Hotels : hotel : building work rooms : in in in
Restaurant n Restaurants : restaurant : building work : in in in
Theater n Theater : theatre : building work sight : in in in
Kino n Kinos : cinema : building : in in in
Bibliothek f Bibliotheken : library : building work : in in in
Supermarkt m Supermärkte : supermarket : building work : in in in
Fabrik f Fabriken : factory : building work : in in in
Büro n Büros : office : room work : in in in
Haus n Häuser : house : building home : in in in
Wohnung f Wohnungen : flat : room home : in in in
Dorf n Dörfer : village : area home : in in in
Stadt f Städte : city : area home : in in in
Park m Parks : park : area : in in in
Garten m Gärten : garden : area : in in in
Wald m Wälder : forest : area : in in in
Zoo m Zoos : zoo : area work : in at in
Markt m Märkte : market : area : auf at auf
See m Seen : lake : area : an at zu
Küche f Küchen : kitchen : room : in in in
Keller m Keller : cellar : room : in in in
Wohnzimmer n Wohnzimmer : living_room : room : in in in
Schlafzimmer n Schlafzimmer : bedroom : room : in in in
Schloss n Schlösser : castle : sight castle rooms : in in in
Bank f Banken : bank : bank work : in at zu
"""

# first parts with their translation : second parts with their gender, plural, translation and
# kinds.
COMPOUNDS = """
Bahnhofs=station Krankenhaus=hospital Schul=school Kirchen=church Hotel=hotel Museums=museum Küchen=kitchen \
Büro=office : \
uhr/f/uhren/clock/hung.machine tür/f/türen/door/opened.part fenster/n/fenster/window/opened.part \
schlüssel/m/schlüssel/key/carry.lost
Schlafzimmer=bedroom Wohnzimmer=living_room Keller=cellar Garten=garden : \
tür/f/türen/door/opened.part fenster/n/fenster/window/opened.part schlüssel/m/schlüssel/key/carry.lost
Apfel=apple Kirsch=cherry Schokoladen=chocolate Zitronen=lemon Nuss=nut : kuchen/m/kuchen/cake/food.baked
Gemüse=vegetable Kartoffel=potato Tomaten=tomato Fisch=fish : suppe/f/suppen/soup/food.cooked salat/m/salate/salad/food
Apfel=apple Orangen=orange Tomaten=tomato : saft/m/säfte/juice/drink.mass
Winter=winter Sommer=summer Leder=leather : jacke/f/jacken/jacket/worn schuh/m/schuhe/shoe/worn \
mantel/m/mäntel/coat/worn
Holz=wooden Glas=glass : tisch/m/tische/table/furniture.top schrank/m/schränke/cupboard/furniture
"""

# first parts with their translation : second parts whose translation leads a phrase:
# Gartenbesitzer, the owner of the garden.
PHRASE_COMPOUNDS = """
Krankenhaus=the_hospital Schul=the_school Museums=the_museum Hotel=the_hotel Theater=the_theatre \
Bibliotheks=the_library \
Fabrik=the_factory : leiter/m/leiter/head_of/person.chosen.chief leiterin/f/leiterinnen/head_of/person.chosen.chief
Garten=the_garden Hotel=the_hotel Restaurant=the_restaurant Fabrik=the_factory Kino=the_cinema Auto=the_car : \
besitzer/m/besitzer/owner_of/person.chosen.chief besitzerin/f/besitzerinnen/owner_of/person.chosen.chief
Katzen=cats Hunde=dogs Pferde=horses Vogel=birds Löwen=lions : \
buch/n/bücher/book_about/text.carry.gift.pages geschichte/f/geschichten/story_about/text.written.told \
film/m/filme/film_about/watched \
lied/n/lieder/song_about/sung
Haus=the_house Brücken=the_bridge Straßen=the_street : bau/m/bauten/construction_of/project.chosen
"""

# German, stem before an ending, comparative : English, comparative : kinds of noun that it suits.
ADJECTIVES = """
alt - älter : old older : person furniture worn vehicle building area animal castle
jung - jünger : young younger : person animal
neu - - : new - : furniture worn vehicle building text carry idea exam device room
groß - größer : big bigger : animal vehicle building area furniture room carry stood
klein - kleiner : small smaller : animal vehicle building area furniture room carry stood gift
schön - schöner : beautiful more_beautiful : building area worn gift hung sung castle room furniture trip
teuer teur teurer : expensive more_expensive : worn vehicle device gift furniture drink trip carry
billig - billiger : cheap cheaper : worn vehicle device furniture drink food carry
interessant - interessanter : interesting more_interesting : pages written watched exam idea trip
langweilig - langweiliger : boring more_boring : pages written watched exam
wichtig - wichtiger : important more_important : message event idea noted task
lang - länger : long longer : text watched sung trip worn
kurz - kürzer : short shorter : text watched sung trip
schwierig - schwieriger : difficult more_difficult : task asked exam
schwer - schwerer : heavy heavier : carry furniture
rot - - : red - : worn vehicle carry stood opened
blau - - : blue - : worn vehicle carry stood opened
grün - - : green - : worn vehicle carry stood opened soft
schwarz - - : black - : worn vehicle animal furniture
weiß - - : white - : worn vehicle animal furniture opened soft
freundlich - freundlicher : friendly friendlier : person stranger
müde müd - : tired - : person animal
krank - - : sick - : person animal
klug - klüger : clever cleverer : person animal thought
reich - reicher : rich richer : person stranger
arm - ärmer : poor poorer : person stranger
berühmt - berühmter : famous more_famous : person building
stolz - - : proud - : person stranger
hungrig - - : hungry - : person animal
traurig - - : sad - : person told sung
glücklich - glücklicher : happy happier : person stranger
streng - strenger : strict stricter : person stranger
mutig - mutiger : brave braver : person animal
höflich - höflicher : polite politer : person asked noted
fleißig - - : hard-working - : person stranger
ruhig - ruhiger : quiet quieter : building area room
modern - moderner : modern more_modern : building furniture device room
sauber - - : clean - : room worn washed soft
schmutzig - - : dirty - : room worn washed soft
dunkel dunkl dunkler : dark darker : room area
warm - wärmer : warm warmer : food drink worn soft
kalt - kälter : cold colder : drink cooked room
frisch - frischer : fresh fresher : food
süß - süßer : sweet sweeter : baked drink
kaputt - - : broken - : machine device part vehicle lock
schnell - schneller : fast faster : vehicle animal
gefährlich - gefährlicher : dangerous more_dangerous : wild
leer - - : empty - : building room stood
lustig - lustiger : funny funnier : person text watched sung animal
spannend - spannender : exciting more_exciting : pages told watched show trip
seltsam - seltsamer : strange stranger : idea watched told person noted lock
wunderbar - - : wonderful - : joy show sung
"""

MEN = """Peter Paul Hans Karl Max Felix Jonas Leon Lukas Tim Tom Jan Stefan Thomas Michael Martin Andreas
Frank Jürgen Klaus Otto Emil Anton Oskar David Simon Daniel Georg Robert Walter Mehmet Ivan Luca Pierre"""
WOMEN = """Anna Maria Laura Julia Sophie Lena Emma Mia Hanna Clara Eva Katrin Sabine Petra Monika Ursula
Renate Ingrid Helga Greta Frieda Ida Nina Sara Lisa Marie Johanna Charlotte Martha Elena Fatma Yuki Olga
Chiara"""

CITIES = """Berlin Hamburg Frankfurt Stuttgart Dresden Leipzig Bremen Bonn Essen Kiel Mainz Freiburg
Heidelberg Salzburg Innsbruck Bern London Paris Madrid Oslo Stockholm Helsinki Budapest Amsterdam
München=Munich Köln=Cologne Wien=Vienna Nürnberg=Nuremberg Hannover=Hanover Zürich=Zurich Genf=Geneva Rom=Rome
Mailand=Milan Venedig=Venice Prag=Prague Warschau=Warsaw Moskau=Moscow Lissabon=Lisbon Kopenhagen=Copenhagen
Brüssel=Brussels Athen=Athens"""
COUNTRIES = """Italien=Italy Spanien=Spain Frankreich=France Schweden=Sweden Norwegen=Norway
Griechenland=Greece Österreich=Austria Polen=Poland"""
